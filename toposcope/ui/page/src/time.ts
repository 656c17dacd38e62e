// Times in words.

export function ago(seconds: number): string {
  if (seconds < 10) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

export function lasting(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** Seconds from an RFC 3339 time to now; null where there is no such time. */
export function since(at: string | null, now: number): number | null {
  const time = Date.parse(at ?? "");
  return Number.isNaN(time) ? null : Math.max(0, (now - time) / 1000);
}

export function clock(at: string | number): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleTimeString("en-GB");
}

export function day(at: string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? at : time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}
