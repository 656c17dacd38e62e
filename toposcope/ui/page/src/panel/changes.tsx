// Recent changes, newest first; a click opens the node that changed.

import type { Change } from "../protocol.ts";
import { ago, since } from "../time.ts";

interface Props {
  changes: readonly Change[];
  view: string;
  live: boolean;
  now: number;
  known(name: string): boolean;
  open(name: string): void;
}

export function Changes({ changes, view, live, now, known, open }: Props) {
  const shown = changes.filter((change) => change.view === null || change.view === view);
  if (!shown.length) {
    return (
      <p class="soft">{live ? "Nothing has changed since the server started." : "A saved file shows no changes."}</p>
    );
  }
  return (
    <ol class="changes">
      {shown.map((change) => (
        <li key={change.id} class={change.bad ? "bad" : ""}>
          <span class="sign" aria-hidden="true">
            {change.bad ? "▲" : "•"}
          </span>
          <div>
            <time dateTime={change.at} title={change.at}>
              {ago(since(change.at, now) ?? 0)}
            </time>
            <span class="text">{change.text}</span>
            <div class="nodes">
              {change.nodes.slice(0, 4).map((name) =>
                known(name) ? (
                  <button type="button" key={name} onClick={() => open(name)}>
                    {name}
                  </button>
                ) : (
                  <span key={name}>{name}</span>
                ),
              )}
            </div>
          </div>
        </li>
      ))}
    </ol>
  );
}
