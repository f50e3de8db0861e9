// The figures of a training, with those that were kept for comparison, and its failures.
import type { ComponentChildren } from "preact";
import {
  describe,
  exampleWord,
  inStep,
  lostSteps,
  meanWait,
  modeOf,
  number,
  percent,
  plural,
  seconds,
  taskName,
} from "./findings";
import { plan } from "./state";
import { keep, kept, training } from "./training-state";
import type { Loss, Training } from "./types";
import { Button } from "./widgets";

interface Figure {
  label: string;
  test: string;
  about?: string;
  value: (t: Training) => number | null | undefined;
  show: (x: number | null | undefined) => string;
  more?: (t: Training) => string; // behind the value
  better?: "less" | "more"; // for the colour of a difference
  perMode?: boolean; // counts something else in modes without common steps, so it is not compared with them
  when?: (t: Training) => boolean;
}

function figureList(): Figure[] {
  const word = exampleWord(plan.value.graph?.model);
  const time = (x: number | null | undefined) => seconds(x);
  return [
    { label: "Total time", test: "training-total", value: (t) => t.total_s, show: time, better: "less" },
    {
      label: "Ideal time",
      about: "without failures and checkpoints",
      test: "training-ideal",
      value: (t) => t.ideal_s,
      show: time,
      when: (t) => t.total_s > t.ideal_s * 1.0001,
    },
    {
      label: "Steps per second",
      test: "training-steps-per-s",
      about: inStep(modeOf(plan.value.cluster)) ? "of all workers together" : "the steps of single workers, added up",
      value: (t) => t.steps_per_s,
      show: number,
      better: "more",
      perMode: true,
    },
    {
      label: `${word.many[0].toUpperCase()}${word.many.slice(1)} per second`,
      test: "training-examples-per-s",
      value: (t) => t.examples_per_s,
      show: number,
      better: "more",
    },
    {
      label: "Step time, median",
      test: "training-step-median",
      value: (t) => t.step_s?.median,
      show: time,
      better: "less",
    },
    {
      label: "Step time, p99",
      about: "99 of 100 steps are shorter",
      test: "training-step-p99",
      value: (t) => t.step_s?.p99,
      show: time,
      better: "less",
    },
    {
      label: "Workers wait",
      about: "average share of their time, failures aside",
      test: "training-wait",
      value: (t) => meanWait(t),
      show: percent,
      better: "less",
    },
    {
      label: "Stopped by failures",
      about: "the longest time without a new step after each failure, added up",
      test: "training-stopped",
      value: (t) => t.losses.reduce((sum, l) => sum + (l.stopped_s ?? 0), 0),
      show: time,
      better: "less",
      when: (t) => t.losses?.length > 0,
    },
    {
      label: "Busiest parameter server",
      test: "training-ps-busiest",
      value: (t) => t.ps_busiest,
      show: percent,
      when: (t) => t.mode !== "allreduce",
    },
    {
      label: "Staleness",
      about: "updates by others between reading the parameters and applying the gradient",
      test: "training-staleness",
      value: (t) => t.staleness?.mean,
      show: number,
      more: (t) => `, at most ${number(t.staleness?.max)}`,
      better: "less",
      when: (t) => !inStep(t.mode) && (t.staleness?.n ?? 0) > 0,
    },
    {
      label: "Dropped gradients",
      about: "came too late for their step",
      test: "training-dropped",
      value: (t) => t.dropped,
      show: number,
      when: (t) => t.mode === "backup" || t.mode === "adaptive" || t.dropped > 0,
    },
    { label: "Checkpoints written", test: "training-checkpoints", value: (t) => t.checkpoints, show: number },
    {
      label: "Steps lost",
      about: "had to be done again",
      test: "training-lost",
      value: lostSteps,
      show: number,
      better: "less",
    },
  ];
}

// "+12 %" of the value now against the kept one.
function difference(f: Figure, a: number | null | undefined, b: number | null | undefined): ComponentChildren {
  if (!f.better || typeof a !== "number" || typeof b !== "number" || b === 0 || a === b) return null;
  const share = a / b - 1;
  // Values that read alike have no difference, and one that rounds to nothing says nothing.
  if (f.show(a) === f.show(b) || Math.abs(share) < 0.005) return null;
  const good = share < 0 === (f.better === "less");
  const text = share > 1 ? `${number(a / b)}×` : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
  return <span class={`training-diff ${good ? "training-good" : "training-bad"}`}>{text}</span>;
}

export function Figures() {
  const t = training.value;
  if (!t) return null;
  const k = kept.value?.training ? { title: describe(kept.value.plan.cluster), training: kept.value.training } : null;
  const shown = figureList().filter((f) => !f.when || f.when(t) || (k && f.when(k.training)));
  return (
    <section class="training-panel" aria-label="Figures">
      <div class="training-head">
        <h2>Figures</h2>
        {k && (
          <Button test="forget-kept" kind="quiet" onClick={() => (kept.value = null)}>
            Clear
          </Button>
        )}
        <Button test="keep" title="Keep these figures as a second column, then change something" onClick={keep}>
          Keep for comparison
        </Button>
      </div>
      <table class={`training-figures ${k ? "training-compared" : ""}`}>
        {k && (
          <thead>
            <tr>
              <td />
              <th scope="col">Now</th>
              <th scope="col">Kept</th>
            </tr>
          </thead>
        )}
        <tbody>
          {shown.map((f) => {
            const v = f.value(t);
            const old = k && (!f.when || f.when(k.training)) ? f.value(k.training) : null;
            return (
              <tr key={f.test}>
                <th scope="row">
                  {f.label}
                  {f.about && <small>{f.about}</small>}
                </th>
                <td>
                  <b data-test={f.test} data-value={String(v ?? null)}>
                    {f.show(v)}
                  </b>
                  {f.more?.(t)}
                  {k && (!f.perMode || inStep(t.mode) === inStep(k.training.mode)) && difference(f, v, old)}
                </td>
                {k && (
                  <td class="training-kept" data-test={`kept-${f.test}`} data-value={String(old ?? null)}>
                    {f.show(old)}
                    {old !== null && f.more?.(k.training)}
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
      {k && (
        <p class="training-note" data-test="kept-title">
          Kept: {k.title}
        </p>
      )}
      <Losses list={t.losses ?? []} />
    </section>
  );
}

function Losses(p: { list: Loss[] }) {
  const restored = p.list.filter((l) => l.checkpoint_at_s !== null).at(-1);
  if (!p.list.length) return null;
  return (
    <div class="training-losses">
      <h3 class="training-sub">Failures</h3>
      {p.list.slice(0, 12).map((l, i) => (
        <dl key={i} class="training-loss" data-test={`training-loss-${i}`}>
          <dt>{l.task === "chief" ? `chief (worker ${l.index})` : taskName({ kind: l.task, index: l.index })} fails</dt>
          <dd>at {seconds(l.at_s)}</dd>
          <dt>noticed</dt>
          <dd>{l.noticed_s === null ? "never" : `after ${seconds(l.noticed_s - l.at_s)}`}</dd>
          <dt>back</dt>
          <dd>{l.back_s === null ? "not before the end" : `after ${seconds(l.back_s - l.at_s)}`}</dd>
          {l.stopped_s !== null && (
            <>
              <dt>no progress for</dt>
              <dd>{seconds(l.stopped_s)}</dd>
            </>
          )}
          <dt>checkpoint restored</dt>
          <dd data-test={l === restored ? "training-restored" : undefined} data-value={String(l.checkpoint_at_s)}>
            {l.checkpoint_at_s === null
              ? l.lost_steps > 0
                ? "there was none"
                : "none needed"
              : `of ${seconds(l.checkpoint_at_s)}, ${plural(l.saved_steps, "step")} saved`}
          </dd>
          <dt>work lost</dt>
          <dd>
            {l.lost_steps > 0 ? `${plural(l.lost_steps, "step")}${l.lost_s ? `, ${seconds(l.lost_s)}` : ""}` : "none"}
          </dd>
        </dl>
      ))}
      {p.list.length > 12 && <p class="training-note">and {p.list.length - 12} more</p>}
      {!restored && (
        <span class="training-hidden" data-test="training-restored" data-value="null">
          No checkpoint was restored.
        </span>
      )}
    </div>
  );
}
