// What the tasks do over time: the first steps in detail, and the events and the progress of the whole training.
import { computed } from "@preact/signals";
import { type Lane, LanesChart, ProgressChart } from "./charts";
import { type Kind, inStep, kindNames, leftOut, meanWait, plural, seconds, serversOf, workersOf } from "./findings";
import { plan } from "./state";
import { events, lanes, moveTo, now, playing, togglePlay, training } from "./training-state";
import type { Cluster } from "./types";
import { Button } from "./widgets";

function Legend(p: { kinds: (Kind | "slow" | "running" | "dropped")[] }) {
  const names = {
    ...kindNames,
    slow: "slow",
    running: "running (working or waiting)",
    dropped: "gradient dropped",
    transfer: training.value?.mode === "allreduce" ? "exchanging gradients" : "fetch and push",
    save: "checkpoint written",
    restore: "checkpoint restored",
    serve: "serving requests",
  };
  return (
    <ul class="training-legend">
      {p.kinds.map((k) => (
        <li key={k}>
          <span class={`training-key training-fill-${k}`} />
          {names[k]}
        </li>
      ))}
    </ul>
  );
}

const MOST_LANES = 64;

function laneList(c: Cluster | undefined, which: "steps" | "events"): Lane[] {
  const source = lanes.value[which];
  const slowOnes = events.value.filter((a) => a.list === "slow");
  // Workers first: they are what the picture is about.
  return [...workersOf(c), ...serversOf(c)].map((task) => {
    const mine = slowOnes.filter((a) => a.kind === task.kind && a.index === task.index);
    return {
      task,
      bars: source.get(task.id) ?? [],
      drops: which === "steps" ? lanes.value.drops.get(task.id) : undefined,
      mark: mine.length ? mine[0].text : undefined,
      slow: which === "events" ? mine.map((a) => ({ start_s: a.start_s, end_s: a.end_s ?? Infinity })) : undefined,
    };
  });
}

const firstLanes = computed(() =>
  laneList(plan.value.cluster, "steps")
    .filter((l) => l.bars.length)
    .slice(0, MOST_LANES),
);

// Of a large cluster, only tasks with which something happens.
const eventLanes = computed(() => {
  const list = laneList(plan.value.cluster, "events");
  return list.length <= 14 ? list : list.filter((l) => l.bars.length || l.slow?.length);
});

const MOST_EVENT_LANES = 24;

// Not more than that, in their order; those that only wait for others are left out first.
function fewLanes(all: Lane[]): Lane[] {
  const own = all.filter((l) => l.slow?.length || l.bars.some((b) => b.kind !== "wait"));
  const few = new Set([...new Set([...own, ...all])].slice(0, MOST_EVENT_LANES));
  return all.filter((l) => few.has(l));
}

const presentKinds = (list: Lane[]) => new Set(list.flatMap((l) => l.bars.map((b) => b.kind)));

export function FirstSteps() {
  const list = firstLanes.value;
  const end = lanes.value.window_s;
  if (!list.length) return null;
  if (!(end > 0))
    return (
      <section class="training-panel" aria-label="The first steps">
        <div class="training-head">
          <h2>The first steps</h2>
        </div>
        <p class="training-note">This cluster is too large to show what each of its tasks does in a step.</p>
      </section>
    );
  const t = training.value!;
  const missing = leftOut(t);
  const drops = list.flatMap((l) => l.drops ?? []).filter((s) => s <= end).length;
  const kinds = presentKinds(list);
  const waitsLater =
    t.mode === "bounded" &&
    (meanWait(t) ?? 0) > 0.05 &&
    !list.some((l) => l.task.kind === "worker" && l.bars.some((b) => b.kind === "wait" && b.start_s < end));
  const order: Kind[] = ["compute", "transfer", "wait", "serve", "down", "restore"];
  return (
    <section class="training-panel training-first" aria-label="The first steps">
      <div class="training-head">
        <h2>The first steps</h2>
        <Legend kinds={[...order.filter((k) => kinds.has(k)), ...(drops ? (["dropped"] as const) : [])]} />
        <Button test="play-first" onClick={() => togglePlay("first")}>
          {playing.value === "first" ? "Pause" : "Play slowly"}
        </Button>
      </div>
      <LanesChart
        lanes={list}
        end_s={end}
        now={now}
        onMove={moveTo}
        test="training-first"
        label={`What each task does in the first ${seconds(end)}. ${list
          .filter((l) => l.mark)
          .map((l) => l.mark)
          .join(". ")}`}
      />
      {!drops && t.dropped > 0 && (
        <p class="training-note" data-test="first-no-drop">
          No gradient is dropped in the steps shown. In the whole training, {plural(t.dropped, "gradient")}{" "}
          {t.dropped === 1 ? "is" : "are"} dropped.
        </p>
      )}
      {waitsLater && (
        <p class="training-note" data-test="first-no-wait">
          No worker waits yet: they wait later, when they are {plural(plan.value.cluster?.delay ?? 4, "step")} ahead of
          the slowest one.
        </p>
      )}
      {missing && (
        <p class="training-note" data-test="first-left-out">
          {missing}
        </p>
      )}
    </section>
  );
}

export function WholeTraining() {
  const t = training.value;
  if (!t) return null;
  const all = eventLanes.value;
  const list = fewLanes(all);
  const kinds: Kind[] = (["wait", "save", "restore", "down", "cut"] as Kind[]).filter((k) => presentKinds(list).has(k));
  const slowShown = list.some((l) => l.slow?.length);
  return (
    <section class="training-panel training-whole" aria-label="The whole training">
      <div class="training-head">
        <h2>The whole training</h2>
        <Legend kinds={["running", ...kinds, ...(slowShown ? (["slow"] as const) : [])]} />
      </div>
      {(t.progress?.length ?? 0) > 0 && (
        <>
          <h3 class="training-sub">Progress: steps that count{inStep(t.mode) ? "" : ", average of the workers"}</h3>
          <ProgressChart training={t} now={now} onMove={moveTo} />
        </>
      )}
      {list.length > 0 && (
        <LanesChart
          lanes={list}
          end_s={t.total_s}
          now={now}
          onMove={moveTo}
          test="training-whole"
          events={events.value}
          label={
            `Checkpoints and failures in ${seconds(t.total_s)} of training: ` +
            `${plural(t.checkpoints ?? 0, "checkpoint")}, ${plural(t.losses?.length ?? 0, "failure")}.`
          }
        />
      )}
      {list.length < all.length && (
        <p class="training-note" data-test="whole-left-out">
          Shown: {list.length} of {all.length} tasks with which something happens.
        </p>
      )}
    </section>
  );
}
