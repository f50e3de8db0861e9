// What the result of a training means: which tasks exist, what each one does at a given time, and the sentences that
// say what the cluster waits for and what a crash costs. No drawing: training.tsx and charts.tsx do that.
import type { Cluster, Crash, Cut, Doing, Loss, Mode, Plan, Slow, Training, WorkerResult } from "./types";
import { formatPercent, formatSeconds } from "./widgets";

// ---- numbers as text ----

const SPACE = "\u00a0"; // between a number and its unit: no line may end there

// A count or a factor: as many digits as it has, but at most three significant ones behind the point.
export function number(x: number | null | undefined): string {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  return Math.abs(x) >= 100 ? String(Math.round(x)) : String(Number(x.toPrecision(3)));
}

// A time, without zeros at the end of a round number: 13 s, not 13.0 s.
export function seconds(x: number | null | undefined): string {
  return formatSeconds(x)
    .replace(/(\.\d*?)0+ /, "$1 ")
    .replace(". ", " ")
    .replace(" ", SPACE);
}

export function percent(x: number | null | undefined): string {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  return (x > 0 && x < 0.005 ? "<1 %" : formatPercent(x)).replace(" ", SPACE);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${number(n)} ${n === 1 ? one : many}`;
}

export const capital = (s: string) => s.charAt(0).toUpperCase() + s.slice(1);

// "worker 1", "worker 1 and worker 4"
const listed = (names: string[]) =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;

// ---- modes ----

export const modes: { mode: Mode; label: string; about: string }[] = [
  {
    mode: "async",
    label: "Async",
    about:
      "No worker waits: each one updates the parameters whenever it has a gradient, even if they have changed since " +
      "it read them.",
  },
  {
    mode: "sync",
    label: "Sync",
    about:
      "A step ends when the gradients of all workers have arrived, so every step is as slow as the slowest worker.",
  },
  {
    mode: "backup",
    label: "Backup",
    about:
      "There are more workers than a step needs gradients: the step takes the first ones that arrive and drops the " +
      "slowest.",
  },
  {
    mode: "bounded",
    label: "Bounded delay",
    about: "Each worker goes at its own speed, but waits if it would get too many steps ahead of the slowest one.",
  },
  {
    mode: "adaptive",
    label: "Adaptive",
    about: "Like backup, but before each step the cluster chooses how many of the slowest gradients to drop.",
  },
  {
    mode: "allreduce",
    label: "All-reduce",
    about:
      "There are no parameter servers: after each step the workers add up their gradients among themselves, in a ring.",
  },
];

export const modeOf = (c: Cluster | undefined): Mode => c?.mode ?? "async";
// Modes in which a step is shared by all workers.
export const inStep = (mode: string) =>
  mode === "sync" || mode === "backup" || mode === "adaptive" || mode === "allreduce";

export function backupOf(c: Cluster | undefined): number {
  if (modeOf(c) === "backup") return c?.backup ?? 1;
  return c?.backup ?? 0;
}

// ---- tasks ----

export interface Task {
  kind: "worker" | "ps";
  index: number;
  id: string; // as in TrainingSpan.task
}

const task = (kind: "worker" | "ps", index: number): Task => ({ kind, index, id: `${kind}:${index}` });
export const taskName = (t: { kind: string; index: number }) =>
  t.kind === "ps" ? `server ${t.index} (ps)` : `${t.kind} ${t.index}`;
// Where there is little room.
export const shortName = (t: { kind: string; index: number }) => `${t.kind === "ps" ? "server" : t.kind} ${t.index}`;

export function workersOf(c: Cluster | undefined): Task[] {
  return Array.from({ length: Math.max(1, (c?.workers ?? 1) + backupOf(c)) }, (_, i) => task("worker", i));
}

export function serversOf(c: Cluster | undefined): Task[] {
  return modeOf(c) === "allreduce" ? [] : Array.from({ length: Math.max(1, c?.ps ?? 1) }, (_, i) => task("ps", i));
}

// ---- what was asked for ----

export interface Asked {
  list: "crashes" | "slow" | "cuts" | "checkpoints";
  at: number; // position in the list
  kind: "worker" | "ps" | null;
  index: number;
  start_s: number;
  end_s: number | null; // null: a moment, or to the end
  text: string;
}

export const slowTask = (s: Slow) => s.task ?? "worker";
export const slowIndex = (s: Slow) => s.index ?? s.worker ?? 0;

function slowText(s: Slow): string {
  const from = s.at_s ?? 0;
  const much = `${number(s.factor ?? 2)}× slower`;
  const when = s.for_s
    ? ` from ${seconds(from)} to ${seconds(from + s.for_s)}`
    : from > 0
      ? ` from ${seconds(from)} on`
      : "";
  return `${taskName({ kind: slowTask(s), index: slowIndex(s) })} is ${much}${when}`;
}

function crashText(c: Crash): string {
  const who = c.task === "chief" ? "chief" : taskName({ kind: c.task ?? "worker", index: c.index ?? 0 });
  return `${who} killed at ${seconds(c.at_s ?? 1)}${c.silent ? " with its host" : ""}`;
}

const cutStart = (c: Cut) => c.at_s ?? 1;
const cutEnd = (c: Cut) => cutStart(c) + (c.for_s ?? 1);

function cutText(c: Cut): string {
  const peer = c.ps === undefined ? "" : ` from ${taskName({ kind: "ps", index: c.ps })}`;
  return `worker ${c.worker ?? 0} cut off${peer} from ${seconds(cutStart(c))} to ${seconds(cutEnd(c))}`;
}

// All events of a plan, in the order of their times.
export function asked(c: Cluster | undefined): Asked[] {
  const out: Asked[] = [];
  c?.crashes?.forEach((x, at) => {
    const chief = x.task === "chief";
    out.push({
      list: "crashes",
      at,
      kind: chief ? "worker" : ((x.task as "worker" | "ps" | undefined) ?? "worker"),
      index: x.index ?? 0,
      start_s: x.at_s ?? 1,
      end_s: null,
      text: crashText(x),
    });
  });
  c?.slow?.forEach((x, at) =>
    out.push({
      list: "slow",
      at,
      kind: slowTask(x),
      index: slowIndex(x),
      start_s: x.at_s ?? 0,
      end_s: x.for_s ? (x.at_s ?? 0) + x.for_s : null,
      text: slowText(x),
    }),
  );
  c?.cuts?.forEach((x, at) =>
    out.push({
      list: "cuts",
      at,
      kind: "worker",
      index: x.worker ?? 0,
      start_s: cutStart(x),
      end_s: cutEnd(x),
      text: cutText(x),
    }),
  );
  c?.checkpoints?.forEach((x, at) =>
    out.push({
      list: "checkpoints",
      at,
      kind: null,
      index: 0,
      start_s: x,
      end_s: null,
      text: `checkpoint at ${seconds(x)}`,
    }),
  );
  return out.sort((a, b) => a.start_s - b.start_s);
}

// The number in its list of the event of a task that lasts at this time, or -1.
export function activeAt(c: Cluster | undefined, list: "slow" | "cuts", t: Task, at_s: number): number {
  const found = asked(c).find(
    (a) =>
      a.list === list &&
      a.kind === t.kind &&
      a.index === t.index &&
      a.start_s <= at_s &&
      (a.end_s === null || at_s < a.end_s),
  );
  return found ? found.at : -1;
}

// ---- what each task does ----

export type Kind = "compute" | "transfer" | "wait" | "serve" | "save" | "restore" | "down" | "cut";

const kinds: Record<Doing, Kind> = {
  call: "transfer",
  fetch: "transfer",
  forward: "compute",
  backward: "compute",
  push: "transfer",
  reduce: "transfer",
  wait: "wait",
  serve: "serve",
  save: "save",
  restore: "restore",
  down: "down",
  cut: "cut",
};

export const kindNames: Record<Kind, string> = {
  compute: "computing",
  transfer: "transferring",
  wait: "waiting",
  serve: "serving",
  save: "saving",
  restore: "restoring",
  down: "down",
  cut: "cut off",
};

export interface Bar {
  kind: Kind;
  start_s: number;
  end_s: number;
}

export interface Lanes {
  steps: Map<string, Bar[]>; // the first steps
  drops: Map<string, number[]>; // when gradients were dropped in the first steps
  events: Map<string, Bar[]>; // checkpoints and failures of the whole training
  window_s: number; // end of the first steps; 0: none are known
}

const isEvent = (k: Kind) => k === "save" || k === "restore" || k === "down" || k === "cut";

function push(map: Map<string, Bar[]>, id: string, bar: Bar): void {
  const bars = map.get(id);
  if (bars) bars.push(bar);
  else map.set(id, [bar]);
}

// Joins bars of one kind that touch, because a worker computes layer by layer and a thousand tiny boxes show no more.
function join(bars: Bar[], gap_s: number): Bar[] {
  const last = new Map<Kind, Bar>();
  const out: Bar[] = [];
  bars.sort((a, b) => a.start_s - b.start_s);
  for (const b of bars) {
    const open = last.get(b.kind);
    if (open && b.start_s <= open.end_s + gap_s) open.end_s = Math.max(open.end_s, b.end_s);
    else {
      const copy = { ...b };
      out.push(copy);
      last.set(b.kind, copy);
    }
  }
  return out;
}

// The first steps end for the picture when the first of the workers has no further recorded step: beyond that, an empty
// lane would look like an idle worker. If most workers have not computed anything by the end of the record, because the
// cluster is too large for it, there is no picture.
export function lanesOf(t: Training | undefined, c: Cluster | undefined): Lanes {
  const lanes: Lanes = { steps: new Map(), drops: new Map(), events: new Map(), window_s: 0 };
  for (const s of t?.spans ?? []) {
    const kind = kinds[s.doing] ?? "compute";
    push(isEvent(kind) ? lanes.events : lanes.steps, s.task, { kind, start_s: s.start_s, end_s: s.end_s });
    if (s.dropped) lanes.drops.set(s.task, [...(lanes.drops.get(s.task) ?? []), s.end_s]);
  }
  const recorded = [...lanes.steps].filter(([id]) => id.startsWith("worker:")).map(([, bars]) => bars);
  const ends = recorded
    .filter((bars) => bars.some((b) => b.kind === "compute"))
    .map((bars) => bars.reduce((m, b) => Math.max(m, b.end_s), 0));
  lanes.window_s = ends.length > recorded.length / 2 ? Math.min(...ends, t?.spans_of?.until_s ?? Infinity) : 0;
  for (const [id, bars] of lanes.steps) lanes.steps.set(id, join(bars, lanes.window_s / 1000));
  for (const [id, bars] of lanes.events) lanes.events.set(id, join(bars, 0));
  addStops(t, c, lanes);
  return lanes;
}

// What the picture of the first steps leaves out; "" if it is complete.
export function leftOut(t: Training): string {
  const { steps, workers, ps, until_s } = t.spans_of;
  const all = { workers: t.each_worker.length, ps: t.mode === "allreduce" ? 0 : t.ps };
  const of = [];
  if (workers < all.workers) of.push(`${workers} of ${all.workers} workers`);
  if (ps < all.ps) of.push(`${ps} of ${all.ps} parameter servers`);
  const text = [];
  if (of.length) text.push(`Shown: ${of.join(", ")}. They are those that are slow, fail or are cut off, and the first ones.`);
  if (until_s !== null) text.push(`There is no room for what happens after ${seconds(until_s)}.`);
  else if (steps < 3) text.push(`There is room for ${plural(steps, "step")} only.`);
  return text.join(" ");
}

// Whether all workers wait for one that is cut off.
const waitsForCut = (mode: string, c: Cluster | undefined) => mode === "allreduce" || (mode === "sync" && !c?.backup);

// After a crash nobody makes progress until it is repaired: the simulator gives this time for each loss, and all
// workers that are up spend it waiting. While a worker is cut off, the others wait for it until its lease has ended.
// These bars come first, so that failures are drawn over them.
function addStops(t: Training | undefined, c: Cluster | undefined, lanes: Lanes): void {
  const step = t?.step_s?.median ?? 0;
  const lease_s = t?.mode === "sync" && typeof c?.lease_s === "number" ? c.lease_s : t?.mode === "sync" ? 10 : Infinity;
  const bars: Bar[] = [];
  for (const l of t?.losses ?? [])
    if (l.stopped_s !== null && l.stopped_s > 3 * step)
      bars.push({ kind: "wait", start_s: l.at_s, end_s: l.at_s + l.stopped_s });
  for (const x of t && waitsForCut(t.mode, c) ? (c?.cuts ?? []) : [])
    bars.push({ kind: "wait", start_s: cutStart(x), end_s: Math.min(cutEnd(x), cutStart(x) + lease_s) });
  if (!bars.length) return;
  for (let i = 0; i < (t?.each_worker?.length ?? 0); i++) {
    const id = `worker:${i}`;
    lanes.events.set(id, [...bars, ...(lanes.events.get(id) ?? [])]);
  }
}

export interface Shares {
  compute: number;
  transfer: number;
  wait: number;
  down: number;
}

export function sharesOf(w: WorkerResult | undefined): Shares | null {
  if (!w) return null;
  const transfer = w.fetch_s + w.push_s + (w.call_s ?? 0);
  const all = w.busy_s + transfer + w.wait_s + w.down_s;
  return all > 0
    ? { compute: w.busy_s / all, transfer: transfer / all, wait: w.wait_s / all, down: w.down_s / all }
    : null;
}

export interface State {
  kind: Kind | "done" | "idle";
  text: string;
}

const priority: Kind[] = ["down", "restore", "cut", "save", "compute", "transfer", "serve", "wait"];

// What a task does at a time. The simulator records every action of the first steps, and afterwards only checkpoints
// and failures: there the shares of the whole training say what the task mostly does.
export function stateAt(t: Training, lanes: Lanes, who: Task, at_s: number): State {
  const now = (bars: Bar[] | undefined) =>
    bars?.filter((b) => b.start_s <= at_s && at_s < b.end_s).map((b) => b.kind) ?? [];
  const recorded = at_s < lanes.window_s && lanes.steps.has(who.id);
  const doing = [...now(lanes.events.get(who.id)), ...(recorded ? now(lanes.steps.get(who.id)) : [])];
  for (const kind of priority) if (doing.includes(kind)) return { kind, text: kindNames[kind] };
  if (at_s >= t.total_s) return { kind: "done", text: "finished" };
  if (who.kind === "ps") return recorded ? { kind: "idle", text: "idle" } : { kind: "serve", text: "serving" };
  if (recorded) return { kind: "wait", text: "waiting" };
  const s = sharesOf(t.each_worker?.[who.index]);
  return s && s.wait > 0.5 ? { kind: "wait", text: "mostly waits" } : { kind: "compute", text: "at work" };
}

// ---- figures ----

export function meanWait(t: Training, except: number[] = []): number | null {
  const shares = (t.each_worker ?? [])
    .filter((_, i) => !except.includes(i))
    .map(sharesOf)
    .filter((s): s is Shares => s !== null);
  return shares.length ? shares.reduce((sum, s) => sum + s.wait, 0) / shares.length : null;
}

export function meanShare(t: Training, of: keyof Shares): number | null {
  const shares = (t.each_worker ?? []).map(sharesOf).filter((s): s is Shares => s !== null);
  return shares.length ? shares.reduce((sum, s) => sum + s[of], 0) / shares.length : null;
}

// Of the cluster, in modes with common steps; otherwise of a worker.
export function examplesPerStep(t: Training): number | null {
  return t.steps_per_s > 0 ? Number((t.examples_per_s / t.steps_per_s).toPrecision(6)) : null;
}

// All steps of the training: those of the cluster, or those of all workers added up.
export const allSteps = (t: Training) => (inStep(t.mode) ? t.steps : t.steps * t.workers);

export const lostSteps = (t: Training) => (t.losses ?? []).reduce((sum, l) => sum + (l.lost_steps ?? 0), 0);

// What an example of the network is called.
export function exampleWord(model: string | undefined): { one: string; many: string } {
  if (model === "inception" || model === "lenet") return { one: "image", many: "images" };
  return { one: "example", many: "examples" };
}

// The network of a plan in a few words: its name and the sizes that were chosen.
export function networkName(p: Plan): string {
  const { model, file, signature: _signature, ...rest } = p.graph ?? {};
  const sizes = Object.entries(rest).map(([k, v]) => `${k} ${v}`);
  return [model ?? (file ? "a file" : "no network"), ...sizes].join(", ");
}

// The cluster in a few words, as the head of a column of figures.
export function describe(c: Cluster | undefined): string {
  const mode = modes.find((m) => m.mode === modeOf(c))?.label ?? modeOf(c);
  const events = asked(c)
    .filter((a) => a.list !== "checkpoints")
    .map((a) => a.text);
  const workers =
    modeOf(c) === "backup" ? `${c?.workers ?? 1}+${backupOf(c)} workers` : plural(c?.workers ?? 1, "worker");
  const ps = modeOf(c) === "allreduce" ? [] : [`${plural(c?.ps ?? 1, "server")} (ps)`];
  const saves = c?.checkpoint_s ? [`checkpoint each ${seconds(c.checkpoint_s)}`] : [];
  return [
    mode,
    workers,
    ...ps,
    ...saves,
    ...events.slice(0, 2),
    ...(events.length > 2 ? [`${events.length - 2} more events`] : []),
  ].join(" · ");
}

// ---- findings ----

export interface Finding {
  tone: "wait" | "down" | "save" | "info" | "good";
  text: string;
}

// What a loss meant for the others depends on how long they really waited.
function crashFinding(l: Loss, t: Training, c: Cluster): Finding {
  const who =
    l.task === "chief"
      ? `The chief (worker ${l.index})`
      : `${l.task === "ps" ? "Parameter server" : "Worker"} ${l.index}`;
  const head = `${who} was killed at ${seconds(l.at_s)}.`;
  const stopped = didStop(l, t) ? ` The training made no progress for ${seconds(l.stopped_s)}.` : "";
  const work = l.lost_s ? ` (${seconds(l.lost_s)} of work)` : "";
  if (l.lost_steps > 0 && l.checkpoint_at_s !== null)
    return {
      tone: "down",
      text:
        `${head} The parameters were restored from the checkpoint begun at ${seconds(l.checkpoint_taken_s)}, so ` +
        `${plural(l.lost_steps, "step")}${work} ${l.lost_steps === 1 ? "was" : "were"} lost.${stopped}`,
    };
  if (l.lost_steps > 0)
    return {
      tone: "down",
      text:
        `${head} There was no checkpoint, so all ${plural(l.lost_steps, "step")}${work} made until then were lost ` +
        `and the training began again.${stopped}`,
    };
  const why =
    t.mode === "allreduce"
      ? " No work was lost, because every worker has a copy of the parameters."
      : l.task === "ps"
        ? " No step was lost."
        : " No work was lost, because the parameters are on the parameter servers.";
  return { tone: "down", text: `${head}${why}${stopped || othersAfter(l, t, c)}` };
}

const didStop = (l: Loss, t: Training) => l.stopped_s !== null && l.stopped_s > 3 * (t.step_s?.median ?? 0);

// Where every step needs the gradients of all, the others cannot go on without the one that was lost.
function othersAfter(l: Loss, t: Training, c: Cluster): string {
  if (waitsForCut(t.mode, c))
    return l.stopped_s === null ? "" : ` The others waited no longer than ${seconds(l.stopped_s)}.`;
  const isSlower = t.total_s > 1.1 * t.calm_s && !t.losses.some((x) => didStop(x, t)) && !c.cuts?.length;
  return isSlower ? " The others went on, but more slowly." : " The others went on.";
}

// Whether no step ended for at least half of that time.
function isLevel(t: Training, from: number, to: number): boolean {
  let level = 0;
  t.progress.forEach((p, i) => {
    const before = t.progress[i - 1];
    if (before && p.steps === before.steps) level += Math.max(0, Math.min(p.at_s, to) - Math.max(before.at_s, from));
  });
  return level >= 0.5 * (Math.min(to, t.total_s) - from);
}

function cutFinding(cut: Cut, t: Training, c: Cluster): Finding {
  const peer =
    t.mode === "allreduce"
      ? "the other workers"
      : cut.ps === undefined
        ? "the parameter servers"
        : taskName({ kind: "ps", index: cut.ps });
  const effect = waitsForCut(t.mode, c) || (inStep(t.mode) && isLevel(t, cutStart(cut), cutEnd(cut)))
    ? "all the others wait for it"
    : t.mode === "bounded"
      ? `the others go on until they are ${plural(c.delay ?? 4, "step")} ahead of it`
      : "the others go on without it";
  return {
    tone: "down",
    text:
      `From ${seconds(cutStart(cut))} to ${seconds(cutEnd(cut))}, no message passes between worker ` +
      `${cut.worker ?? 0} and ${peer}: ${effect}.`,
  };
}

// ---- stragglers ----

function periodOf(s: Slow): string {
  const from = s.at_s ?? 0;
  if (s.for_s) return ` from ${seconds(from)} to ${seconds(from + s.for_s)}`;
  return from > 0 ? ` from ${seconds(from)} on` : "";
}

// Why steps wait for a slow worker although the mode has gradients to spare.
function spareIsUsed(t: Training, c: Cluster, slow: number[]): string {
  if (t.mode !== "backup") return "";
  const spare = backupOf(c);
  if (slow.length > spare)
    return ` ${plural(slow.length, "worker")} are slow, but only ${spare} ${spare === 1 ? "is" : "are"} to spare.`;
  const lost = new Set(t.losses.filter((l) => l.task !== "ps" && !slow.includes(l.index)).map((l) => l.index));
  for (const x of c.cuts ?? []) if (!slow.includes(x.worker ?? 0)) lost.add(x.worker ?? 0);
  if (!lost.size || slow.length + lost.size <= spare) return "";
  const names = listed([...lost].map((i) => `worker ${i}`));
  const used = spare === 1 ? "the backup is used up" : "the backups are used up";
  const theirs = slow.length === 1 ? "slow worker" : "slow workers";
  return ` While ${names} cannot work, the gradients of the ${theirs} are needed: ${used}.`;
}

// In modes with common steps, the simulator counts the steps that each worker ended: all others waited for it then.
function barrierFinding(t: Training, c: Cluster, slow: number[], who: string, cost: string): Finding | null {
  const one = slow.length === 1 ? who : `one of ${who}`;
  const all = t.each_worker.reduce((sum, w) => sum + w.last, 0);
  const held = slow.reduce((sum, i) => sum + (t.each_worker[i]?.last ?? 0), 0);
  if (!all) return null;
  const wait = meanWait(t, slow);
  const isFree = wait === null || wait < 0.1;
  if (t.mode === "sync" || t.mode === "allreduce") {
    if (held < 0.05 * all)
      return { tone: "info", text: `${howMany(held, all, one)} Other things delay the steps more.` };
    return { tone: isFree ? "info" : "wait", text: `${howMany(held, all, one)}${cost}` };
  }
  if (held === 0) return { tone: isFree ? "good" : "info", text: `No step waits for ${who}.` };
  const isRare = held <= 0.1 * all;
  const why = isRare ? "" : spareIsUsed(t, c, slow);
  return {
    tone: isRare && isFree ? "good" : "wait",
    text: `${isRare ? "Only " : ""}${howMany(held, all, one)}${why}${isRare && isFree ? "" : cost}`,
  };
}

const howMany = (n: number, all: number, who: string) =>
  n === 0 ? `No step waits for ${who}.` : n === all ? `Every step waits for ${who}.` : `${n} of ${all} steps ${n === 1 ? "waits" : "wait"} for ${who}.`;

// Which worker the others wait for, in the words of each mode: the one that the plan slows down most.
function stragglerFinding(t: Training, c: Cluster): Finding | null {
  const list = (c.slow ?? []).filter(
    (s) => slowTask(s) === "worker" && (s.factor ?? 2) > 1 && slowIndex(s) < workersOf(c).length,
  );
  if (!list.length) return null;
  const worst = list.reduce((a, b) => ((b.factor ?? 2) > (a.factor ?? 2) ? b : a));
  const slow = [...new Set(list.map(slowIndex))].sort((a, b) => a - b);
  const i = slowIndex(worst);
  const much = `${number(worst.factor ?? 2)}× slower${periodOf(worst)}`;
  const who = slow.length === 1 ? `worker ${i}, which is ${much}` : `the slow workers (${slow.join(", ")})`;
  const others = workersOf(c).length - slow.length;
  const wait = meanWait(t, slow);
  const cost =
    wait !== null && others > 0
      ? ` The other ${others === 1 ? "worker waits" : `${others} workers wait`} ${percent(wait)} of their time.`
      : "";
  if (t.mode === "async") {
    const rest = (t.each_worker ?? []).filter((_, k) => !slow.includes(k)).map((w) => w.steps);
    const mean = rest.length ? rest.reduce((a, b) => a + b, 0) / rest.length : 0;
    const mine = t.each_worker?.[i];
    const did =
      mine && mean
        ? ` It makes ${plural(mine.steps, "step")} while each of the others makes ${number(Math.round(mean))}.`
        : "";
    return { tone: "info", text: `Worker ${i} is ${much}, but nobody waits for it.${did}` };
  }
  if (t.mode === "bounded")
    return {
      tone: wait !== null && wait < 0.05 ? "info" : "wait",
      text: `The others may be at most ${plural(c.delay ?? 4, "step")} ahead of ${who}. Then they wait.${cost}`,
    };
  return barrierFinding(t, c, slow, who, cost);
}

// ---- what the training pays ----

// Gradients that were computed for nothing, and machines of which no gradient counted.
function priceFinding(t: Training): Finding | null {
  if (!(t.dropped > 0)) return null;
  const made = t.each_worker.reduce((sum, w) => sum + w.steps, 0);
  const useless = t.each_worker.flatMap((w, i) => (w.dropped > 0 && w.dropped >= w.steps ? [i] : []));
  const theirs = useless.reduce((sum, i) => sum + t.each_worker[i].dropped, 0);
  const more = t.dropped - theirs;
  if (!useless.length)
    return {
      tone: "info",
      text:
        `${number(t.dropped)} of the ${plural(made, "gradient")} that the workers computed came too late and ` +
        `${t.dropped === 1 ? "was" : "were"} dropped: this work (${percent(t.dropped / made)}) is the price for not ` +
        "waiting.",
    };
  const one = useless.length === 1;
  const names = listed(useless.map((i) => `worker ${i}`));
  const whose = one ? `${names}'s whole machine` : `the whole machines of ${names}`;
  const finished = theirs === 1 ? "1 gradient, and it came" : `${number(theirs)} gradients, and all came`;
  return {
    tone: "info",
    text:
      `The price: ${whose} (${useless.length} of ${t.each_worker.length}) ${one ? "contributes" : "contribute"} nothing. ` +
      `${one ? "It" : "They"} finished only ${finished} too late.` +
      (more > 0 ? ` ${plural(more, "gradient")} of the others ${more === 1 ? "was" : "were"} dropped, too.` : ""),
  };
}

// What the workers' time goes to, if it is neither computing nor a straggler.
function networkFinding(t: Training): Finding | null {
  const [transfer, compute, wait] = (["transfer", "compute", "wait"] as const).map((k) => meanShare(t, k) ?? 0);
  if (transfer < 0.3 || transfer < compute || transfer < wait) return null;
  const what = t.mode === "allreduce" ? "exchanging gradients" : "fetching parameters and pushing gradients";
  return {
    tone: "wait",
    text:
      `The links are the bottleneck: on average, a worker spends ${percent(transfer)} of its time ${what}, ` +
      `${percent(compute)} computing and ${percent(wait)} waiting for the others.`,
  };
}

// The simulator has run the same training without failures, and without checkpoints too.
function lengthFindings(t: Training, c: Cluster): Finding[] {
  const out: Finding[] = [];
  const failed = t.losses.length > 0 || (c.cuts?.length ?? 0) > 0;
  if (failed && t.calm_s > 0 && t.total_s > t.calm_s * 1.005)
    out.push({
      tone: "down",
      text:
        `Failures make the training ${percent(t.total_s / t.calm_s - 1)} longer: ` +
        `${seconds(t.total_s)} instead of ${seconds(t.calm_s)}.`,
    });
  if (t.checkpoints > 0) {
    const cost = t.calm_s - t.ideal_s;
    const many = t.checkpoints === 1 ? "The checkpoint" : `The ${t.checkpoints} checkpoints`;
    out.push({
      tone: "save",
      text:
        cost > 0.001 * t.ideal_s
          ? `Checkpoints make the training ${percent(cost / t.ideal_s)} longer, even without failures.`
          : `${many} ${t.checkpoints === 1 ? "takes" : "take"} no extra time: the training goes on while ` +
            `${t.checkpoints === 1 ? "it is" : "they are"} written.`,
    });
  }
  return out;
}

// The sentences above the picture, the most important first.
export function findings(t: Training | undefined, c: Cluster | undefined): Finding[] {
  if (!t || !c) return [];
  const out: Finding[] = [];
  const add = (f: Finding | null) => f && out.push(f);
  const straggler = stragglerFinding(t, c);
  add(straggler);

  const server = (c.slow ?? []).find((s) => slowTask(s) === "ps" && (s.factor ?? 2) > 1);
  if (server && t.mode !== "allreduce")
    add({
      tone: "wait",
      text:
        `${capital(taskName({ kind: "ps", index: slowIndex(server) }))} is ${number(server.factor ?? 2)}× ` +
        `slower${periodOf(server)}, so every worker gets the parameters that it keeps later.`,
    });
  for (const cut of c.cuts ?? []) add(cutFinding(cut, t, c));
  const losses = t.losses ?? [];
  for (const l of losses.slice(0, 3)) add(crashFinding(l, t, c));
  if (losses.length > 3) add({ tone: "down", text: `${losses.length - 3} more failures are listed with the figures.` });

  add(priceFinding(t));
  const wait = meanWait(t);
  const network = networkFinding(t);
  const needsAll = t.mode === "sync" || t.mode === "allreduce";
  if (t.mode !== "allreduce" && t.ps_busiest > 0.9)
    add({
      tone: "wait",
      text: `The parameter servers are the bottleneck: the busiest one is busy ${percent(t.ps_busiest)} of the time.`,
    });
  else if (network) add(network);
  else if (
    !straggler &&
    !losses.length &&
    inStep(t.mode) &&
    wait !== null &&
    wait > 0.1 &&
    (t.each_worker?.length ?? 0) > 1
  )
    add({
      tone: "wait",
      text:
        `Each step ends with ${needsAll ? "the slowest worker" : "the last gradient that it needs"}, ` +
        `so the workers wait ${percent(wait)} of their time for each other.`,
    });

  const stale = t.staleness;
  if (!inStep(t.mode) && stale && stale.n > 0 && (stale.mean ?? 0) >= 0.5)
    out.push({
      tone: "info",
      text:
        `A gradient is computed from parameters that are ${number(stale.mean)} updates old on average, ` +
        `${number(stale.max)} at most.`,
    });
  for (const f of lengthFindings(t, c)) add(f);
  if (!out.length) {
    const n = workersOf(c).length;
    out.push({
      tone: n > 1 && wait !== null && wait > 0.1 ? "wait" : "good",
      text:
        n === 1
          ? "One worker trains alone: it waits for nobody."
          : inStep(t.mode)
            ? `All ${n} workers compute each step together, and hardly wait for each other.`
            : wait !== null && wait > 0.05
              ? `The workers wait ${percent(wait)} of their time, because none may be too far ahead of the others.`
              : `The ${n} workers hardly wait for each other.`,
    });
  }
  return out;
}
