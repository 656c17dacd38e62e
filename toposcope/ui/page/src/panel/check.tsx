// Paste a workload; the server says whether it would be accepted and where it would fit.

import { useState } from "preact/hooks";
import { figure } from "../map/text.ts";
import type { Check, CheckAnswer, Finding } from "../protocol.ts";
import { messageOf, type Source } from "../source.ts";

interface Props {
  source: Source;
  answer: CheckAnswer | null;
  /** The check whose domains are marked on the map. */
  marked: Check | null;
  setAnswer(answer: CheckAnswer | null): void;
  mark(check: Check | null): void;
  go(check: Check, path: readonly string[]): void;
}

const EXAMPLE = `apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec: …`;

export function CheckPanel({ source, answer, marked, setAnswer, mark, go }: Props) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  if (!source.live)
    return (
      <p class="soft">
        A saved file cannot check workloads: open `toposcope ui` on the cluster, or use `toposcope check`.
      </p>
    );
  const ask = async (): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      const received = await source.check(text);
      setAnswer(received);
      mark(received.checks.find((check) => check.fits.length > 0) ?? null);
    } catch (refusal) {
      setAnswer(null);
      mark(null);
      setError(messageOf(refusal));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="check"
      onSubmit={(event) => {
        event.preventDefault();
        void ask();
      }}
    >
      <label for="workload">Would it fit? Paste a manifest as for kubectl apply. Nothing is created.</label>
      <textarea
        id="workload"
        rows={10}
        spellcheck={false}
        placeholder={EXAMPLE}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void ask();
        }}
      />
      <div class="buttons">
        <button type="submit" class="main" disabled={busy || !text.trim()}>
          {busy ? "Checking …" : "Check"}
        </button>
        {(answer || error) && (
          <button
            type="button"
            onClick={() => {
              setAnswer(null);
              mark(null);
              setError("");
            }}
          >
            Clear
          </button>
        )}
      </div>
      <div aria-live="polite">
        {error && <p class="missing">{error}</p>}
        {answer?.problems.map((problem) => (
          <p key={problem} class="missing">
            {problem}
          </p>
        ))}
        {answer?.warnings.map((warning) => (
          <p key={warning} class="soft">
            {warning}
          </p>
        ))}
        {answer?.checks.map((check, at) => (
          <Verdict
            key={at}
            check={check}
            marked={marked === check}
            mark={() => mark(marked === check ? null : check)}
            go={(path) => go(check, path)}
          />
        ))}
      </div>
    </form>
  );
}

const WORDS: Record<Check["verdict"], string> = {
  fits: "✓ fits",
  full: "▲ does not fit now",
  never: "▲ cannot fit",
  unclear: "? unclear",
  refused: "▲ would be refused",
  nothing: "requests no topology",
};

function Verdict({
  check,
  marked,
  mark,
  go,
}: {
  check: Check;
  marked: boolean;
  mark(): void;
  go(path: readonly string[]): void;
}) {
  const leftOut = Object.entries(check.leftOut);
  return (
    <section class={`verdict verdict-${check.verdict}`}>
      <h3>
        <span class="badge">{WORDS[check.verdict]}</span> {check.workload || "workload"}
      </h3>
      <p class="soft">
        {check.system}
        {check.topology !== null && `, topology ${check.topology}`}
      </p>
      {check.answer && <p>{check.answer}</p>}
      <Sentences items={check.advice} />
      {check.findings.map((finding) => (
        <FindingNote key={`${finding.rule} ${finding.field} ${finding.message}`} finding={finding} />
      ))}
      {check.demands.length > 0 && (
        <>
          <h4>What it requests</h4>
          <pre tabIndex={0}>{check.demands.join("\n")}</pre>
        </>
      )}
      {check.fits.length > 0 && (
        <>
          <h4>Where {check.group || "it"} would fit</h4>
          {!check.fitsExact && (
            <p class="soft">There is enough free capacity in total; whether each pod fits on a node was not checked.</p>
          )}
          <ul class="fits">
            {check.fits.slice(0, 12).map((fit, at) => (
              <li key={fit.path.join("/")}>
                <button type="button" onClick={() => go(fit.path)}>
                  {fit.path.join(" › ") || "the whole cluster"}
                </button>
                <span class="soft">
                  {figure(fit.free)} free{at === 0 && check.fits.length > 1 ? ", the tightest fit" : ""}
                </span>
              </li>
            ))}
          </ul>
          {(check.fits.length > 12 || check.moreFits) && (
            <p class="soft">
              {check.moreFits ? "More than " : ""}
              {check.fits.length} in total.
            </p>
          )}
          {check.view !== null && (
            <button type="button" aria-pressed={marked} onClick={mark}>
              {marked ? "Marked on the map" : "Mark on the map"}
            </button>
          )}
        </>
      )}
      <Sentences items={check.notes} />
      {check.reasoning.length > 0 && (
        <details>
          <summary>How this was decided</summary>
          <Sentences items={check.reasoning} />
        </details>
      )}
      {leftOut.length > 0 && (
        <details>
          <summary>Excluded nodes</summary>
          <dl class="pairs">
            {leftOut.map(([reason, names]) => (
              <div key={reason}>
                <dt>{reason}</dt>
                <dd>{names.join(", ")}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

function FindingNote({ finding }: { finding: Finding }) {
  return (
    <p class={finding.severity === "error" ? "finding grave" : "finding"}>
      <strong>{finding.severity}</strong> {finding.field}
      {finding.line ? ` (line ${finding.line})` : ""}: {finding.message}
      {finding.fix && <span class="soft"> {finding.fix}</span>}
    </p>
  );
}

function Sentences({ items }: { items: readonly string[] }) {
  return items.length ? (
    <ul class="plain">
      {items.map((item) => (
        <li key={item}>{item}</li>
      ))}
    </ul>
  ) : null;
}
