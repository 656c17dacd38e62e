// Texts that are cut to the room they have.

export type Measure = (text: string) => number;

/** The text, or what of its beginning and end fits with an ellipsis between them; empty where nothing useful does. */
export function cut(text: string, room: number, measure: Measure): string {
  if (measure(text) <= room) return text;
  const letters = Array.from(text);
  let keep = Math.floor((letters.length * room) / measure(text));
  for (; keep >= 3; keep--) {
    const tail = Math.floor(keep * 0.45);
    const short = `${letters.slice(0, keep - tail).join("")}…${tail ? letters.slice(-tail).join("") : ""}`;
    if (measure(short) <= room) return short;
  }
  return "";
}

/** A measure that remembers. */
export function measuring(context: CanvasRenderingContext2D): Measure {
  const known = new Map<string, number>();
  return (text) => {
    let width = known.get(text);
    if (width === undefined) {
      width = context.measureText(text).width;
      known.set(text, width);
    }
    return width;
  };
}

export function many(count: number, one: string): string {
  return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
}

/** A path of domain values for a narrow place: long values lose their middle. */
export function route(path: readonly string[]): string {
  return path.map((value) => (value.length > 22 ? `${value.slice(0, 12)}…${value.slice(-6)}` : value)).join(" › ");
}
