// What the screen is like, and whether it is paper, as far as style sheets cannot answer to it.
import { options } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Whether a media query holds; followed until the component goes. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const follow = (): void => setHolds(media.matches);
    follow();
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, [query]);
  return holds;
}

/** Whether the page is being printed. */
export function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const follow = ({ type }: Event): void => {
      // Paper is laid out as soon as this event has been handled: what is drawn later would not be on it.
      const later = options.debounceRendering;
      options.debounceRendering = (render) => render();
      setPrinting(type === "beforeprint");
      if (later) options.debounceRendering = later;
      else delete options.debounceRendering;
    };
    addEventListener("beforeprint", follow);
    addEventListener("afterprint", follow);
    return () => {
      removeEventListener("beforeprint", follow);
      removeEventListener("afterprint", follow);
    };
  }, []);
  return printing;
}
