// The figures of a training, with those that were kept for comparison, and its failures.
import type { ComponentChildren } from "preact";
import {
  allSteps,
  capital,
  describe,
  examplesPerStep,
  exampleWord,
  inStep,
  lostSteps,
  meanShare,
  meanWait,
  modeOf,
  networkName,
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
  about?: (t: Training) => string;
  value: (t: Training) => number | null | undefined;
  show: (x: number | null | undefined) => string;
  more?: (t: Training) => string; // behind the value
  better?: "less" | "more"; // for the colour of a difference
  perMode?: boolean; // counts something else in modes without common steps, so it is not compared with them
  perWork?: boolean; // grows with the number of examples, so it is compared only for the same number
  when?: (t: Training) => boolean;
}

const FEW = 100; // with fewer steps, 99 of 100 are all of them

const isFailing = (t: Training) => t.losses?.length > 0 || Boolean(plan.value.cluster?.cuts?.length);

function figureList(): Figure[] {
  const word = exampleWord(plan.value.graph?.model);
  const words = capital(word.many);
  const time = (x: number | null | undefined) => seconds(x);
  const warm = (t: Training) =>
    t.warmup > 0 ? `without the first ${plural(t.warmup, "step")}${inStep(t.mode) ? "" : " of each worker"}` : "";
  return [
    {
      label: "Total time",
      test: "training-total",
      about: (t) =>
        `for ${plural(allSteps(t), "step")}${inStep(t.mode) ? "" : " of single workers"} of ` +
        `${t.mode === "adaptive" || isFailing(t) ? "about " : ""}` +
        `${plural(examplesPerStep(t) ?? 0, word.one, word.many)}`,
      value: (t) => t.total_s,
      show: time,
      better: "less",
      perWork: true,
    },
    {
      label: "Time without failures",
      about: () => "and without checkpoints; slow tasks stay slow",
      test: "training-ideal",
      value: (t) => t.ideal_s,
      show: time,
      when: (t) => t.total_s > t.ideal_s * 1.0001,
    },
    {
      label: `${words} per second`,
      about: warm,
      test: "training-examples-per-s",
      value: (t) => t.examples_per_s,
      show: number,
      better: "more",
    },
    {
      label: `${words} per step`,
      about: (t) => (inStep(t.mode) ? "of all workers together" : "of one worker"),
      test: "training-examples-per-step",
      value: examplesPerStep,
      show: number,
    },
    {
      label: inStep(modeOf(plan.value.cluster)) ? "Cluster steps per second" : "Worker steps per second",
      test: "training-steps-per-s",
      about: (t) => (inStep(t.mode) ? warm(t) : `all workers added up, ${warm(t)}`.replace(/, $/, "")),
      value: (t) => t.steps_per_s,
      show: number,
      better: "more",
      perMode: true,
    },
    {
      label: inStep(modeOf(plan.value.cluster)) ? "Step time, median" : "Step time of a worker, median",
      about: () => "half of the steps take at most this long",
      test: "training-step-median",
      value: (t) => t.step_s?.median,
      show: time,
      better: "less",
      perMode: true,
    },
    {
      label: "Step time, p99",
      about: () => "99 of 100 steps take at most this long",
      test: "training-step-p99",
      value: (t) => t.step_s?.p99,
      show: time,
      better: "less",
      perMode: true,
      when: (t) => t.step_s?.n >= FEW,
    },
    {
      label: "Longest step",
      test: "training-step-max",
      value: (t) => t.step_s?.max,
      show: time,
      better: "less",
      perMode: true,
      when: (t) => t.step_s?.n > 0,
    },
    {
      label: "Workers wait",
      about: (t) => `average share of their time${isFailing(t) ? ", also while another task is down" : ""}`,
      test: "training-wait",
      value: (t) => meanWait(t),
      show: percent,
      better: "less",
    },
    {
      label: "Workers transfer",
      about: (t) => (t.mode === "allreduce" ? "exchanging gradients" : "fetching parameters, pushing gradients"),
      test: "training-transfer",
      value: (t) => meanShare(t, "transfer"),
      show: percent,
      better: "less",
    },
    {
      label: "Stopped by failures",
      about: () => "the longest time without a new step after each failure, added up",
      test: "training-stopped",
      value: (t) => t.losses.reduce((sum, l) => sum + (l.stopped_s ?? 0), 0),
      show: time,
      better: "less",
      when: (t) => t.losses?.length > 0,
    },
    {
      label: "Busiest parameter server",
      about: (t) =>
        plan.value.cluster?.duplex === false
          ? "share of its time"
          : "share of what it can send and receive" +
            (t.ps_busiest > 0.2 ? ": 50 % if it sends all the time, but receives nothing" : ""),
      test: "training-ps-busiest",
      value: (t) => t.ps_busiest,
      show: percent,
      when: (t) => t.mode !== "allreduce",
    },
    {
      label: "Staleness",
      about: () => "updates by others between reading the parameters and applying the gradient, on average",
      test: "training-staleness",
      value: (t) => t.staleness?.mean,
      show: number,
      more: (t) => `, at most ${number(t.staleness?.max)}`,
      better: "less",
      when: (t) => !inStep(t.mode) && (t.staleness?.n ?? 0) > 0,
    },
    {
      label: "Dropped gradients",
      about: () => "came too late for their step",
      test: "training-dropped",
      value: (t) => t.dropped,
      show: number,
      when: (t) => t.mode === "backup" || t.mode === "adaptive" || t.dropped > 0,
    },
    { label: "Checkpoints written", test: "training-checkpoints", value: (t) => t.checkpoints, show: number },
    {
      label: "Steps lost",
      about: () => "had to be done again",
      test: "training-lost",
      value: lostSteps,
      show: number,
      better: "less",
    },
  ];
}

// How many examples the whole training uses.
const workOf = (t: Training) => allSteps(t) * (examplesPerStep(t) ?? 0);
const sameWork = (a: Training, b: Training) => Math.abs(workOf(a) - workOf(b)) <= 0.005 * workOf(b);

// "+12 %" of the value now against the kept one.
function difference(f: Figure, a: number | null | undefined, b: number | null | undefined): ComponentChildren {
  if (!f.better || typeof a !== "number" || typeof b !== "number" || b === 0 || a === b) return null;
  const share = a / b - 1;
  const points = Math.round(100 * (a - b));
  // Values that read alike have no difference, and one that rounds to nothing says nothing.
  if (f.show(a) === f.show(b) || Math.abs(share) < 0.005) return null;
  const good = share < 0 === (f.better === "less");
  const text =
    f.show === percent
      ? `${points > 0 ? "+" : "−"}${plural(Math.abs(points), "point")}`
      : share > 1 ? `${number(a / b)}×` : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
  return <span class={`training-diff ${good ? "training-good" : "training-bad"}`}>{text}</span>;
}

export function Figures() {
  const t = training.value;
  if (!t) return null;
  const k = kept.value?.training
    ? { title: describe(kept.value.plan.cluster), plan: kept.value.plan, training: kept.value.training }
    : null;
  const isSameNetwork = !k || JSON.stringify(k.plan.graph) === JSON.stringify(plan.value.graph);
  const isComparable = (f: Figure) =>
    k &&
    isSameNetwork &&
    (!f.perMode || inStep(t.mode) === inStep(k.training.mode)) &&
    (!f.perWork || sameWork(t, k.training));
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
                  {f.about && <small>{f.about(t)}</small>}
                </th>
                <td>
                  <b data-test={f.test} data-value={String(v ?? null)}>
                    {f.show(v)}
                  </b>
                  {f.more?.(t)}
                  {isComparable(f) && difference(f, v, old)}
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
          Kept: {networkName(k.plan)} · {k.title}
        </p>
      )}
      {!isSameNetwork && (
        <p class="training-note training-warning" data-test="kept-other-network">
          What is kept is a training of another network ({networkName(k!.plan)} instead of {networkName(plan.value)}), so
          the two columns cannot be compared.
        </p>
      )}
      {k && isSameNetwork && !sameWork(t, k.training) && (
        <p class="training-note training-warning" data-test="kept-other-work">
          The two trainings do not use equally many {exampleWord(plan.value.graph?.model).many}: about{" "}
          {number(workOf(t))} now, {number(workOf(k.training))} kept. Compare those per second, not the total times.
        </p>
      )}
      <Losses list={t.losses ?? []} />
    </section>
  );
}

interface Part {
  name: string;
  text: string;
  s: number;
  test: string;
  sum: boolean; // of the parts above
}

// What the time until a task is back, and until there is progress, consists of: these parts add up.
function partsOf(l: Loss): Part[] {
  const out: Part[] = [];
  const part = (name: string, s: number, test: string) =>
    s > 1e-9 && out.push({ name, text: seconds(s), s, test: `loss-${test}`, sum: false });
  const sum = (name: string, s: number, test: string) =>
    out.push({ name, text: `after ${seconds(s)}`, s, test: `loss-${test}`, sum: true });
  if (l.restarted_s !== null) part("time until it runs again", l.restarted_s - l.at_s, "restart");
  if (l.back_s === null) out.push({ name: "back", text: "not before the end", s: -1, test: "loss-back", sum: true });
  else {
    const reached = l.reached_s ?? l.restarted_s;
    if (l.task === "ps" && l.restarted_s !== null && reached !== null) {
      part("then until the chief tries again", reached - l.restarted_s, "retry");
      part("then restoring its parameters", l.back_s - reached, "restore");
    } else if (l.restarted_s !== null) part("then opening its session", l.back_s - l.restarted_s, "session");
    sum("back", l.back_s - l.at_s, "back");
  }
  if (l.stopped_s !== null) {
    const after = l.back_s === null ? 0 : l.stopped_s - (l.back_s - l.at_s);
    const first = l.task === "ps" ? "then until all workers try again and end a step" : "then until a step ends";
    if (after > 0) part(first, after, "step");
    out.push({ name: "no progress for", text: seconds(l.stopped_s), s: l.stopped_s, test: "loss-stopped", sum: true });
  }
  return out;
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
          {partsOf(l).map((p) => (
            <>
              <dt class={p.sum ? "" : "training-part"}>{p.name}</dt>
              <dd data-test={p.test} data-value={p.s}>
                {p.text}
              </dd>
            </>
          ))}
          <dt>checkpoint restored</dt>
          <dd data-test={l === restored ? "training-restored" : undefined} data-value={String(l.checkpoint_at_s)}>
            {l.checkpoint_at_s === null
              ? l.lost_steps > 0
                ? "there was none"
                : "none needed"
              : `begun at ${seconds(l.checkpoint_taken_s)}, ${plural(l.saved_steps, "step")} saved`}
          </dd>
          <dt>work lost</dt>
          <dd>
            {l.lost_steps > 0 ? `${plural(l.lost_steps, "step")}${l.lost_s ? `, ${seconds(l.lost_s)}` : ""}` : "none"}
          </dd>
        </dl>
      ))}
      {p.list.some((l) => l.task === "ps") && (
        <p class="training-note">
          A worker that has lost a parameter server tries again after pauses that grow up to 1 s, so a slightly longer
          restart can cost one more pause.
        </p>
      )}
      {p.list.length > 12 && <p class="training-note">and {p.list.length - 12} more</p>}
      {!restored && (
        <span class="training-hidden" data-test="training-restored" data-value="null">
          No checkpoint was restored.
        </span>
      )}
    </div>
  );
}
