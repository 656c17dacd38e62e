// What the page shows, as the part of the URL after `#`: a shared link shows the same.
import { isLens, type LensKey } from "./model/lens.ts";

export interface Place {
  /** The id of a view; null: the first. */
  readonly view: string | null;
  readonly path: readonly string[];
  /** A node that is open. */
  readonly node: string | null;
  readonly lens: LensKey;
  /** The category of the lens that alone keeps its colour. */
  readonly only: string | null;
  /** A gang that is shown on the map: `KIND/NAMESPACE/NAME`. */
  readonly gang: string | null;
}

export const START: Place = { view: null, path: [], node: null, lens: "health", only: null, gang: null };

export function read(hash: string): Place {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const lens = parameters.get("by");
  return {
    view: parameters.get("view"),
    // A label value contains no slash, but an edited link may.
    path: (parameters.get("in") ?? "").split("/").filter(Boolean).map(decoded),
    node: parameters.get("node") || null,
    lens: isLens(lens) ? lens : "health",
    only: parameters.get("only"),
    gang: parameters.get("gang") || null,
  };
}

export function written(place: Place): string {
  const parts = new URLSearchParams();
  if (place.view !== null) parts.set("view", place.view);
  if (place.path.length) parts.set("in", place.path.map(encodeURIComponent).join("/"));
  if (place.node !== null) parts.set("node", place.node);
  if (place.lens !== "health") parts.set("by", place.lens);
  if (place.only !== null) parts.set("only", place.only);
  if (place.gang !== null) parts.set("gang", place.gang);
  const text = parts.toString().replaceAll("%2F", "/");
  return text && `#${text}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
