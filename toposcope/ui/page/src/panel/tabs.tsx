// The panel beside the map: tabs that arrows move between.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

/** What a badge counts to: a longer number would push other tabs aside. */
const MAX_BADGE = 99;

export interface Tab {
  readonly key: string;
  readonly label: string;
  readonly badge?: number;
}

interface Props {
  tabs: readonly Tab[];
  current: string;
  choose(key: string): void;
  children: ComponentChildren;
}

export function Tabs({ tabs, current, choose, children }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = (tabs.findIndex((tab) => tab.key === current) + step + tabs.length) % tabs.length;
    choose(tabs[next]?.key ?? current);
    list.current?.querySelectorAll("button")[next]?.focus();
  };
  return (
    <aside class="panel" aria-label="Details">
      <div class="tabs" role="tablist" ref={list} onKeyDown={move}>
        {tabs.map(({ key, label, badge }) => (
          <button
            key={key}
            id={`tab-${key}`}
            type="button"
            role="tab"
            aria-selected={key === current}
            aria-controls="tab-panel"
            tabIndex={key === current ? 0 : -1}
            onClick={() => choose(key)}
          >
            {label}
            {badge ? <span class="badge">{badge > MAX_BADGE ? `${MAX_BADGE}+` : badge}</span> : null}
          </button>
        ))}
      </div>
      <div id="tab-panel" class="tab-panel" role="tabpanel" aria-labelledby={`tab-${current}`} tabIndex={0}>
        {children}
      </div>
    </aside>
  );
}
