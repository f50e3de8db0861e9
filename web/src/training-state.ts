// The state of the tab "Training": its playhead, which is a time of the training (not of the step), and the changes of
// the plan that its buttons make at that time.
import { batch, computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Asked, type Task, activeAt, asked, capital, lanesOf, modeOf, seconds, taskName, workersOf } from "./findings";
import { api } from "./api";
import { change, messageOf, notice, plan, result } from "./state";
import type { Cluster, Plan, Training } from "./types";

export const USUAL_SLOW = 3;
export const slowFactor = signal(USUAL_SLOW); // of the button Slow
export const isSlow = (factor: number) => factor > 1 && factor <= 1000;

// ---- the playhead ----

export const playhead = signal<number | null>(null); // null: nobody has moved it yet
export const playing = signal<"all" | "first" | null>(null); // the whole training, or its first steps slowly
export const hint = signal<string | null>(null); // what the last button did, if it is not obvious
export const picked = signal<string | null>(null); // the task whose buttons are shown, if tasks are drawn small

// The simulator calls a cluster with backup workers "sync", so the mode is the plan's.
const named = (t: Training, p: Plan): Training => ({ ...t, mode: modeOf(p.cluster) });
export const training = computed<Training | undefined>(() => {
  const t = result.value?.training;
  return t && named(t, plan.value);
});
export const lanes = computed(() => lanesOf(training.value, plan.value.cluster));
export const events = computed(() => asked(plan.value.cluster));
export const chosen = computed(
  () => picked.value ?? `worker:${events.value.find((a) => a.list === "slow" && a.kind === "worker")?.index ?? 0}`,
);
export const total = computed(() => training.value?.total_s ?? 0);

// Where the playhead is before somebody moves it, because that is what the picture should show first: just after the
// first crash, or in the middle of the longest wait of the first steps if it is long.
const initial = computed(() => {
  const { steps, window_s } = lanes.value;
  const crash = training.value?.losses?.[0];
  if (crash) return crash.at_s + 0.3 * (crash.stopped_s ?? 0);
  let at = window_s * 0.4;
  let longest = 0.1 * window_s;
  for (const [id, bars] of steps)
    for (const b of id.startsWith("worker:") ? bars : [])
      if (b.kind === "wait" && b.end_s <= window_s && b.end_s - b.start_s > longest) {
        longest = b.end_s - b.start_s;
        at = (b.start_s + b.end_s) / 2;
      }
  return at;
});

export const now = computed(() => Math.min(playhead.value ?? initial.value, total.value));

export function moveTo(s: number): void {
  batch(() => {
    playing.value = null;
    hint.value = null;
    playhead.value = rounded(s);
  });
}

export function togglePlay(what: "all" | "first"): void {
  const end = what === "all" ? total.value : lanes.value.window_s;
  playing.value = playing.value === what ? null : what;
  if (playing.value && (playhead.value === null || now.value >= end * 0.999)) playhead.value = 0;
}

const PLAY_S = { all: 12, first: 9 }; // how long playing takes

// Moves the playhead while something is played.
export function usePlayer(): void {
  const what = playing.value;
  useEffect(() => {
    if (!what) return;
    let last = performance.now();
    let frame = requestAnimationFrame(function move(t) {
      if (playing.value !== what) return; // a button has stopped it since the last frame
      const end = what === "all" ? total.value : lanes.value.window_s;
      const next = now.value + ((t - last) / 1000 / PLAY_S[what]) * end;
      last = t;
      batch(() => {
        playhead.value = Math.min(next, end);
        if (next >= end) playing.value = null;
      });
      if (next < end) frame = requestAnimationFrame(move);
    });
    return () => cancelAnimationFrame(frame);
  }, [what]);
}

// A time with so many digits that the playhead can be placed to a thousandth of the training.
function rounded(s: number): number {
  if (!(total.value > 0)) return 0;
  const unit = 10 ** Math.floor(Math.log10(total.value / 200));
  return Number((Math.round(s / unit) * unit).toPrecision(9));
}

// The time at which a button acts. A crash or a checkpoint in the first steps shows little, so before the playhead is
// moved the middle of the training is taken.
function momentOf(what: string): number {
  const touched = playhead.value !== null;
  moveTo(touched ? now.value : total.value / 2);
  if (!touched)
    hint.value =
      `${what} at ${seconds(now.value)}. The playhead was moved to the middle of the training, because in the first ` +
      "steps little would be seen. Move it before the next click to choose another time.";
  return now.value;
}

// ---- what is kept for comparison ----

export interface Kept {
  plan: Plan;
  training: Training | null; // null: it is being simulated
}

export const kept = signal<Kept | null>(null);

export function keep(): void {
  if (training.value) kept.value = { plan: plan.value, training: training.value };
}

// Simulates a plan that an address says was kept.
export async function restoreKept(p: Plan | null): Promise<void> {
  if (!p || JSON.stringify(p) === JSON.stringify(kept.value?.plan)) {
    if (!p) kept.value = null;
    return;
  }
  kept.value = { plan: p, training: null };
  let found: Training | null = null;
  try {
    const t = (await api.simulate(p)).training;
    found = t ? named(t, p) : null;
  } catch (e) {
    if (kept.value?.plan === p) notice.value = `What was kept for comparison cannot be simulated: ${messageOf(e)}`;
  }
  if (kept.value?.plan === p) kept.value = found && { plan: p, training: found };
}

// ---- changing the plan ----

const usual: Cluster = { workers: 4, ps: 2, mode: "sync" };

export function edit(f: (c: Cluster) => void): void {
  void change((p) => {
    p.cluster ??= { ...usual };
    f(p.cluster);
    forget(p.cluster);
  });
}

// Removes events of tasks that no longer exist, and empty lists.
function forget(c: Cluster): void {
  const w = workersOf(c).length;
  const s = modeOf(c) === "allreduce" ? 0 : (c.ps ?? 1);
  const exists = (kind: string | undefined, index: number) => (kind === "ps" ? index < s : index < w);
  c.crashes = c.crashes?.filter((x) => exists(x.task, x.index ?? 0));
  c.slow = c.slow?.filter((x) => exists(x.task, x.index ?? x.worker ?? 0));
  c.cuts = c.cuts?.filter((x) => exists("worker", x.worker) && (x.ps === undefined || exists("ps", x.ps)));
  for (const key of ["crashes", "slow", "cuts", "checkpoints"] as const) if (!c[key]?.length) delete c[key];
}

export function kill(t: Task): void {
  const at_s = momentOf(`${capital(taskName(t))} is killed`);
  edit((c) => (c.crashes ??= []).push({ task: t.kind, index: t.index, at_s }));
}

export function slow(t: Task): void {
  const at_s = playhead.value === null ? 0 : rounded(now.value);
  const isOn = activeAt(plan.value.cluster, "slow", t, now.value) >= 0;
  hint.value =
    isOn || playhead.value !== null
      ? null
      : `${capital(taskName(t))} is slow from the beginning. Move the playhead first to make it slow from another time on.`;
  edit((c) => {
    const i = activeAt(c, "slow", t, now.value);
    if (i >= 0) c.slow!.splice(i, 1);
    else
      (c.slow ??= []).push({
        ...(t.kind === "worker" ? { worker: t.index } : { task: "ps" as const, index: t.index }),
        factor: slowFactor.value,
        ...(at_s > 0 ? { at_s } : {}),
      });
  });
}

export function cut(t: Task): void {
  const c0 = plan.value.cluster;
  const i = activeAt(c0, "cuts", t, now.value);
  if (i >= 0) {
    edit((c) => c.cuts!.splice(i, 1));
    return;
  }
  const at_s = momentOf(`The link of ${taskName(t)} is cut`);
  const for_s = Math.max(rounded(total.value / 8), 1e-3);
  edit((c) => (c.cuts ??= []).push({ worker: t.index, at_s, for_s }));
}

export function checkpointNow(): void {
  const at = momentOf("A checkpoint is written");
  edit((c) => {
    c.checkpoints = [...(c.checkpoints ?? []), at].sort((a, b) => a - b);
  });
}

export function remove(a: Asked): void {
  hint.value = null;
  edit((c) => (c[a.list] as unknown[]).splice(a.at, 1));
}
