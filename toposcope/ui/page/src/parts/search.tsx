// The search box: what the page knows at once, GPUs as soon as the server (or the file) has answered.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { many } from "../map/text.ts";
import type { Forest } from "../model/domains.ts";
import type { Table } from "../model/table.ts";
import { lookUp, type Match } from "../search.ts";
import type { Source } from "../source.ts";

/** GPUs whose UUID holds the query, once the source has answered; made apart, as `useSlash` is. */
function useGpus(query: string, source: Source): { query: string; matches: Match[] } {
  const [gpus, setGpus] = useState<{ query: string; matches: Match[] }>({ query: "", matches: [] });
  useEffect(() => {
    if (query.trim().length < 3) return;
    const stop = new AbortController();
    const asking = setTimeout(() => {
      source.gpus(query, stop.signal).then(
        (matches) => setGpus({ query, matches }),
        () => undefined, // what the page knows itself is shown all the same
      );
    }, 120);
    return () => {
      clearTimeout(asking);
      stop.abort();
    };
  }, [query, source]);
  return gpus;
}

/** A slash leads into the box. Its closure lives as long as the page: in `Search` it would keep the first cluster alive. */
function useSlash(box: RefObject<HTMLInputElement | null>): void {
  // As soon as the box is there: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const slash = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      box.current?.focus();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, [box]);
}

interface Props {
  source: Source;
  table: Table;
  forest: Forest;
  query: string;
  setQuery(query: string): void;
  choose(match: Match): void;
}

export function Search({ source, table, forest, query, setQuery, choose }: Props) {
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(0);
  const gpus = useGpus(query, source);
  const box = useRef<HTMLInputElement>(null);
  useSlash(box);

  const matches = open ? [...lookUp(query, table, forest), ...(gpus.query === query ? gpus.matches : [])] : [];
  const take = (match: Match | undefined): void => {
    if (!match) return;
    setOpen(false);
    setQuery("");
    choose(match);
    box.current?.blur();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setActive((at) => Math.max(0, Math.min(matches.length - 1, at + (event.key === "ArrowDown" ? 1 : -1))));
    } else if (event.key === "Enter") {
      take(matches[active]);
    } else if (event.key === "Escape") {
      setQuery("");
      setOpen(false);
      box.current?.blur();
      event.stopPropagation();
    }
  };
  const shown = open && query.trim() !== "";
  return (
    <search class="search">
      <input
        ref={box}
        type="text"
        role="combobox"
        aria-label="Search nodes, domains and GPU UUIDs"
        aria-expanded={shown}
        aria-controls="search-found"
        aria-autocomplete="list"
        aria-activedescendant={shown && matches[active] ? `found-${active}` : undefined}
        placeholder="Search node, domain, GPU UUID"
        autocomplete="off"
        spellcheck={false}
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setActive(0);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
      <div id="search-found" class="found" role="listbox" aria-label="Search results" hidden={!shown}>
        {matches.map((match, at) => (
          <div
            key={`${match.kind} ${match.path.join("/")} ${match.text}`}
            id={`found-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === active}
            // Before the box loses its focus, which closes the list.
            onMouseDown={(event) => {
              event.preventDefault();
              take(match);
            }}
          >
            <span class="kind">{match.kind === "domain" ? match.level : match.kind}</span>
            <span class="name">{match.text}</span>
            <span class="where">
              {match.kind === "domain" ? match.path.slice(0, -1).join(" › ") : match.kind === "gpu" ? match.node : ""}
            </span>
          </div>
        ))}
        {shown && !matches.length && <p class="nothing">No matching node, domain or GPU.</p>}
      </div>
      <output class="sr-only">{shown ? many(matches.length, "result") : ""}</output>
    </search>
  );
}
