// Light or dark: as the browser prefers, until the user chooses here.
import { useEffect, useState } from "preact/hooks";
import { usePrinting } from "./media.ts";

export type ThemeName = "light" | "dark";
const KEY = "toposcope-theme";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

export function chosenTheme(): ThemeName {
  const kept = stored();
  return kept === "light" || kept === "dark" ? kept : prefersDark.matches ? "dark" : "light";
}

export function wear(theme: ThemeName): void {
  document.documentElement.dataset["theme"] = theme;
}

/** The theme that is worn, and what changes it. Paper is light. */
export function useTheme(): [ThemeName, () => void] {
  const [theme, setTheme] = useState(chosenTheme);
  useEffect(() => {
    const follow = (): void => setTheme(chosenTheme());
    prefersDark.addEventListener("change", follow);
    return () => prefersDark.removeEventListener("change", follow);
  }, []);
  const worn = usePrinting() ? "light" : theme;
  wear(worn);
  const toggle = (): void => {
    const other = theme === "dark" ? "light" : "dark";
    store(other);
    setTheme(other);
  };
  return [worn, toggle];
}

// A page that is opened from a file may have no storage; the choice then lasts as long as the page.
function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function store(theme: ThemeName): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Worn all the same.
  }
}

export function ThemeButton({ theme, toggle }: { theme: ThemeName; toggle: () => void }) {
  const other = theme === "dark" ? "light" : "dark";
  return (
    <button
      type="button"
      class="icon-button"
      onClick={toggle}
      aria-label={`Switch to ${other} colours`}
      title={`Switch to ${other} colours`}
    >
      <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
        <circle cx="10" cy="10" r="6.5" fill="none" stroke="currentColor" stroke-width="1.6" />
        <path d="M10 3.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" />
      </svg>
    </button>
  );
}
