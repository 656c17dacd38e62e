// The help: keys, and symbols of the map. `?` opens it.
import { useLayoutEffect, useRef } from "preact/hooks";
import { Sample, Square } from "../map/legend.tsx";
import { HEALTH } from "../model/lens.ts";
import type { ThemeName } from "./theme.tsx";

const KEYS: readonly (readonly [keys: readonly string[], does: string])[] = [
  [["/"], "search nodes, domains and GPU UUIDs"],
  [["←", "↑", "→", "↓"], "move on the map"],
  [["Enter"], "open a domain or a node"],
  [["Esc", "Backspace"], "go back"],
  [["Home", "End"], "go to the first or the last item on the map"],
  [["Ctrl", "Enter"], "check the workload in the text box"],
  [["?"], "show this help"],
];

export function Help({ theme }: { theme: ThemeName }) {
  const dialog = useRef<HTMLDialogElement>(null);
  // As soon as the page is there: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const ask = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key !== "?" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (!dialog.current?.open) dialog.current?.showModal();
    };
    addEventListener("keydown", ask);
    return () => removeEventListener("keydown", ask);
  }, []);
  return (
    <>
      <button
        type="button"
        class="icon-button"
        onClick={() => dialog.current?.showModal()}
        aria-label="Help"
        title="Keys and symbols (?)"
      >
        ?
      </button>
      <dialog ref={dialog} class="help" aria-labelledby="help-title">
        <header>
          <h2 id="help-title">Keys and symbols</h2>
          <button type="button" class="icon-button" onClick={() => dialog.current?.close()} aria-label="Close">
            ✕
          </button>
        </header>
        <dl>
          {KEYS.map(([keys, does]) => (
            <div key={does}>
              <dt>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <dl>
          {HEALTH.map((category) => (
            <div key={category.key}>
              <dt>
                <Sample category={category} theme={theme} /> {category.label}
              </dt>
              <dd>{category.hint}</dd>
            </div>
          ))}
          <div>
            <dt>
              <Square full /> <Square />
            </dt>
            <dd>a free GPU, a GPU in use</dd>
          </div>
          <div>
            <dt>
              <Square half />
            </dt>
            <dd>a free GPU that a typical pod cannot use: too little CPU or memory, a taint, or a missing level</dd>
          </div>
          <div>
            <dt>▲ 3</dt>
            <dd>nodes with problems in the domain</dd>
          </div>
          <div>
            <dt>dashed frame</dt>
            <dd>nodes that schedulers skip, with the reason</dd>
          </div>
        </dl>
      </dialog>
    </>
  );
}
