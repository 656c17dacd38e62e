// The colours of the style sheet, for a canvas that cannot read them itself.
import type { Category, Pattern } from "../model/lens.ts";

export interface Theme {
  colour(tone: string): string;
  /** A colour or a pattern of it. Patterns are drawn in the ink that lies on the tone. */
  fill(category: Category, patterned: boolean): string | CanvasPattern;
  /** Black or white, whichever is legible on a tone. */
  on(tone: string): string;
  readonly font: string;
}

/** Those that were read already: asking the style sheet for each colour again would take longer than drawing with it. */
const read = new Map<string, Theme>();

/** The colours under a theme. */
export function themeOf(theme: string, density: number): Theme {
  const key = `${theme} ${density}`;
  const palette = read.get(key) ?? reading(density);
  read.set(key, palette);
  return palette;
}

function reading(density: number): Theme {
  // The style of an element that goes would keep it, and with it all that its handlers see.
  const style = getComputedStyle(document.body);
  const colours = new Map<string, string>();
  const inks = new Map<string, string>();
  const patterns = new Map<string, CanvasPattern | string>();
  const colour = (tone: string): string => {
    let value = colours.get(tone);
    if (value === undefined) {
      value = style.getPropertyValue(`--${tone}`).trim() || "#888888";
      colours.set(tone, value);
    }
    return value;
  };
  const on = (tone: string): string => {
    let ink = inks.get(tone);
    if (ink === undefined) {
      ink = luminance(colour(tone)) > 0.3 ? "#10161d" : "#ffffff";
      inks.set(tone, ink);
    }
    return ink;
  };
  return {
    colour,
    on,
    font: style.fontFamily,
    fill(category, patterned) {
      if (!patterned || category.pattern === "plain" || category.pattern === "hollow") return colour(category.tone);
      const known = patterns.get(`${category.tone} ${category.pattern}`);
      if (known) return known;
      const made = drawn(category.pattern, colour(category.tone), on(category.tone), density) ?? colour(category.tone);
      patterns.set(`${category.tone} ${category.pattern}`, made);
      return made;
    },
  };
}

const SIDE = 8;

function drawn(pattern: Pattern, tone: string, ink: string, density: number): CanvasPattern | null {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.round(SIDE * density);
  const pen = canvas.getContext("2d");
  if (!pen) return null;
  pen.scale(canvas.width / SIDE, canvas.width / SIDE);
  pen.fillStyle = tone;
  pen.fillRect(0, 0, SIDE, SIDE);
  pen.strokeStyle = pen.fillStyle = ink;
  pen.globalAlpha = 0.34;
  pen.lineWidth = 1.6;
  pen.beginPath();
  if (pattern === "hatch" || pattern === "cross") {
    // Three strokes, so that the corners of the tile are filled too.
    for (const shift of [-SIDE, 0, SIDE]) {
      pen.moveTo(shift - 1, SIDE + 1);
      pen.lineTo(shift + SIDE + 1, -1);
    }
  }
  if (pattern === "slash" || pattern === "cross") {
    for (const shift of [-SIDE, 0, SIDE]) {
      pen.moveTo(shift - 1, -1);
      pen.lineTo(shift + SIDE + 1, SIDE + 1);
    }
  }
  if (pattern === "bars") {
    pen.moveTo(-1, SIDE / 2);
    pen.lineTo(SIDE + 1, SIDE / 2);
  }
  pen.stroke();
  if (pattern === "dots") {
    for (const [x, y] of [
      [2, 2],
      [6, 6],
    ] as const) {
      pen.beginPath();
      pen.arc(x, y, 1.3, 0, 2 * Math.PI);
      pen.fill();
    }
  }
  const made = pen.createPattern(canvas, "repeat");
  made?.setTransform(new DOMMatrix().scale(SIDE / canvas.width));
  return made;
}

/** Relative luminance of `#rrggbb`, as WCAG counts it. */
export function luminance(colour: string): number {
  const channel = (at: number): number => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  if (!/^#[0-9a-f]{6}$/i.test(colour)) return 0.5;
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}
