// The path from the whole cluster to the domain shown; each step leads back to it.
import { type Domain, type Forest, levelName, narrowed, pathOf } from "../model/domains.ts";
import { route } from "./text.ts";

interface Props {
  forest: Forest;
  focus: Domain;
  node: string | null;
  zoom(domain: Domain): void;
}

export function Crumbs({ forest, focus, node, zoom }: Props) {
  const inner = narrowed(focus);
  const way: Domain[] = [];
  for (let here: Domain | null = focus; here; here = here.parent) way.unshift(here);
  return (
    <nav class="crumbs" aria-label="Breadcrumb">
      <ol>
        {way.map((domain) => {
          const level = levelName(forest, domain);
          const name = domain.parent ? domain.value : forest.view.name || "cluster";
          const current = domain === focus && node === null;
          return (
            <li key={domain.id}>
              {current ? (
                <span aria-current="page" title={name}>
                  {level && <small>{level}</small>} {name}
                </span>
              ) : (
                <button type="button" onClick={() => zoom(domain)} title={name}>
                  {level && <small>{level}</small>} {name}
                </button>
              )}
            </li>
          );
        })}
        {node !== null && (
          <li>
            <span aria-current="page">
              <small>node</small> {node}
            </span>
          </li>
        )}
      </ol>
      {inner !== focus && node === null && (
        <p class="inner">all nodes are in {route(pathOf(inner).slice(focus.depth))}</p>
      )}
    </nav>
  );
}
