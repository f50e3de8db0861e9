// What the page and the simulator exchange. A plan is a plan.json as docs/sim.md describes it; a result is what
// `millrace sim --json` prints for that plan.

export interface Device {
  name?: string;
  type?: "CPU" | "GPU";
  task?: number;
  speedup?: number;
  flops_per_s?: number;
  bytes_per_s?: number;
  op_us?: number;
  memory_bytes?: number;
}

export interface Link {
  latency_us?: number;
  bytes_per_s?: number;
}

export interface NamedLink extends Link {
  from: string;
  to: string;
  both?: boolean;
}

export interface Pin {
  node: string; // a name, or a prefix that ends with a slash
  device: string;
}

export type Mode = "async" | "sync" | "backup" | "bounded" | "adaptive" | "allreduce";

export interface Slow {
  task?: "worker" | "ps";
  worker?: number;
  index?: number;
  factor?: number;
  at_s?: number; // from this time on; default 0
  for_s?: number; // for so long; default: to the end
}

export interface Crash {
  task?: "worker" | "ps" | "chief";
  index?: number;
  at_s?: number;
  silent?: boolean;
}

export interface Cut {
  worker: number;
  ps?: number; // default: from all parameter servers
  at_s?: number;
  for_s?: number;
}

export interface Cluster {
  workers?: number;
  ps?: number;
  mode?: Mode;
  backup?: number;
  delay?: number;
  steps?: number;
  slow?: Slow[];
  crashes?: Crash[];
  cuts?: Cut[];
  checkpoint_s?: number;
  checkpoints?: number[]; // further checkpoints, at these times
  restart_s?: number;
  [key: string]: unknown;
}

export interface Plan {
  title?: string;
  graph?: { model?: string; file?: string; signature?: string; [parameter: string]: unknown };
  devices?: Device[];
  link?: Link;
  network?: Link;
  links?: NamedLink[];
  pins?: Pin[];
  cluster?: Cluster;
  [key: string]: unknown;
}

export interface NodeResult {
  name: string;
  op: string;
  device: string;
  phase: "forward" | "backward" | "update";
  ready_s: number;
  start_s: number;
  end_s: number;
  label?: string; // of a feed or fetch: the name that people know it by
  inputs: number[]; // numbers in `nodes`, data and control
}

export interface Transfer {
  tensor: string;
  from: string;
  to: string;
  source: number; // number of the node that produces it
  bytes: number;
  start_s: number;
  arrival_s: number;
}

export interface Distribution {
  n: number;
  mean: number | null;
  min: number | null;
  p10: number | null;
  median: number | null;
  p90: number | null;
  p99: number | null;
  max: number | null;
}

export interface Loss {
  task: "worker" | "ps" | "chief";
  index: number;
  at_s: number;
  noticed_s: number | null;
  restarted_s: number | null; // when its process ran again
  reached_s: number | null; // of a server: when the chief found it and began to restore; of a worker: restarted_s
  back_s: number | null;
  stopped_s: number | null;
  lost_steps: number;
  lost_s: number;
  checkpoint_at_s: number | null; // when the checkpoint that was restored was complete
  checkpoint_taken_s: number | null; // and when it was begun: it holds the parameters of that time
  saved_steps: number;
}

export type Doing =
  | "call" | "fetch" | "forward" | "backward" | "push" | "wait" | "serve" | "save" | "restore" | "down" | "reduce" | "cut";

export interface TrainingSpan {
  task: string; // "worker:0"
  doing: Doing;
  step: number;
  start_s: number;
  end_s: number;
  dropped?: true; // of a push: the gradient came too late for its step
}

export interface WorkerResult {
  steps: number; // of the whole training, like the next two; the times are those after the warm-up
  dropped: number; // gradients that arrived too late
  last: number; // in modes with common steps: steps that its gradients completed, so that all others waited for it
  call_s?: number; // the calls that begin its steps
  busy_s: number;
  fetch_s: number;
  push_s: number;
  wait_s: number;
  down_s: number;
}

export interface Training {
  mode: string;
  workers: number;
  ps: number;
  steps: number;
  total_s: number;
  ideal_s: number; // without crashes, cuts and checkpoints
  calm_s: number; // without crashes and cuts, but with the checkpoints
  warmup: number; // so many first steps of each worker are left out of rates, step times and shares
  steps_per_s: number;
  examples_per_s: number;
  ps_busiest: number;
  worker_busy: number;
  dropped: number;
  checkpoints: number;
  step_s: Distribution;
  staleness: Distribution;
  losses: Loss[];
  each_worker: WorkerResult[];
  spans: TrainingSpan[]; // the first steps, and every checkpoint and failure of the whole training
  spans_of: { steps: number; workers: number; ps: number; until_s: number | null }; // which first steps these are
  progress: { at_s: number; steps: number }[]; // steps that count (lost ones are taken off again), at about 200 times
}

export interface Result {
  title: string;
  graph_nodes: number;
  step_nodes: number;
  step_s: number;
  devices: { name: string; device: string; nodes: number; busy_s: number; alone_s: number | null }[];
  nodes: NodeResult[];
  transfers: Transfer[];
  training?: Training;
}

export interface Choice {
  device: string;
  end_s: number | null; // when the node would end there; null: the node cannot run there
  step_s: number | null; // what the whole step would take
}

export interface Reason {
  node: string;
  device: string;
  why: string;
  choices: Choice[]; // all devices that could run it, the chosen one first
}

export interface SweepPoint {
  value: number;
  examples_per_s: number;
  steps_per_s: number;
  step_median_s: number;
  ps_busiest: number;
}

export interface Sweep {
  what: string;
  points: SweepPoint[];
  knee: number | null;
  best: number | null;
}

export interface Model {
  name: string;
  about: string;
  params: { name: string; about: string; usual: number; low: number; high: number }[];
}

export interface BoardFile {
  id: string; // what a plan writes as graph.file
  name: string;
  plan?: Plan; // if the file is a plan
}

export interface Start {
  version: string;
  models: Model[];
  files: BoardFile[];
}
