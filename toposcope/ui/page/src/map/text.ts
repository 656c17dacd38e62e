// Texts that are cut to the room they have.

export type Measure = (text: string) => number;

/**
 * The text, or what of its beginning and end fits with an ellipsis between them; empty where nothing useful does.
 * `end` is how much of that is the end: domains and nodes differ there, sentences do not.
 */
export function cut(text: string, room: number, measure: Measure, end = 0.6): string {
  if (measure(text) <= room) return text;
  const letters = Array.from(text);
  let keep = Math.floor((letters.length * room) / measure(text));
  for (; keep >= 2; keep--) {
    const tail = Math.ceil(keep * end);
    const short = `${letters.slice(0, keep - tail).join("")}…${tail ? letters.slice(-tail).join("") : ""}`;
    if (measure(short) <= room) return short;
  }
  return "";
}

/** Widths by font, then by text: a map is drawn again and again with the same words. */
const widthsByFont = new Map<string, Map<string, number>>();
/** How many texts of one font are remembered: names come and go for as long as the page is open. */
const MAX_REMEMBERED = 20_000;

/** A measure of texts in this font; the font that the context writes in stays as it is. */
export function measuring(context: CanvasRenderingContext2D, font: string): Measure {
  let widths = widthsByFont.get(font);
  if (!widths || widths.size > MAX_REMEMBERED) {
    widths = new Map();
    widthsByFont.set(font, widths);
  }
  const here = widths;
  return (text) => {
    let width = here.get(text);
    if (width === undefined) {
      const before = context.font;
      context.font = font;
      width = context.measureText(text).width;
      context.font = before;
      here.set(text, width);
    }
    return width;
  };
}

// `toLocaleString` makes one of these each time, which takes longer than to draw the words.
const grouped = new Intl.NumberFormat("en");

/** A number with its thousands apart. */
export function figure(count: number): string {
  return grouped.format(count);
}

export function many(count: number, singular: string): string {
  return `${figure(count)} ${singular}${count === 1 ? "" : "s"}`;
}

/** `8 free`, `8 free, 4 of them out of reach`; unknown free GPUs are left out. */
export function freeWords(free: number | null, blocked: number): string {
  if (free === null) return "";
  if (!blocked) return `${figure(free)} free`;
  return blocked === free
    ? `${figure(free)} free, out of reach`
    : `${figure(free)} free, ${figure(blocked)} of them out of reach`;
}

/** A path of domain values for a narrow place: long values lose their middle. */
export function route(path: readonly string[]): string {
  return path.map((value) => (value.length > 22 ? `${value.slice(0, 12)}…${value.slice(-6)}` : value)).join(" › ");
}
