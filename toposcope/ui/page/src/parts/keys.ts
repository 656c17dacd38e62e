// Keys that work wherever the focus is, except while typing.
import { useLayoutEffect, useRef } from "preact/hooks";

/** Whether a key belongs to the page as a whole: not to a field, an open dialog, the browser, or a part that took it. */
function isForPage(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return false;
  const { target } = event;
  if (!(target instanceof HTMLElement)) return true;
  return !/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !target.closest("dialog[open]");
}

/** Escape and Backspace go back. The listener stays the same, and calls what the last rendering passed. */
export function useBackKeys(back: () => void): void {
  const newest = useRef(back);
  newest.current = back;
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if ((event.key !== "Escape" && event.key !== "Backspace") || !isForPage(event)) return;
      event.preventDefault();
      newest.current();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
