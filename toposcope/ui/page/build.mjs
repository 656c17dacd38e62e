// Makes ../static out of the sources here: one document, one script, one style sheet. `--watch` follows changes.
import { copyFile, mkdir, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { context } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = here("../static/");
const watch = process.argv.includes("--watch");

await rm(out, { recursive: true, force: true });
await mkdir(`${out}assets`, { recursive: true });
await copyFile(here("src/index.html"), `${out}index.html`);
const work = await context({
  entryPoints: { app: here("src/main.tsx") },
  bundle: true,
  minify: !watch,
  // The exported report holds the script inline: it must not import, and must not end a script element.
  format: "iife",
  target: ["chrome110", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  outdir: `${out}assets`,
  logLevel: "warning",
});
if (watch) {
  await work.watch();
} else {
  await work.rebuild();
  await work.dispose();
}
