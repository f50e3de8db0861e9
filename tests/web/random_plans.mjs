// Random plans for comparing two builds of the simulator. The same seed gives the same plan.

// mulberry32: numbers in [0, 1)
function generator(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const MODES = ["async", "sync", "backup", "bounded", "adaptive", "allreduce"];

// models: of GET /api/start
export function randomPlan(models, seed) {
  const random = generator(seed);
  const maybe = (share) => random() < share;
  const whole = (low, high) => low + Math.floor(random() * (high - low + 1));
  const oneOf = (list) => list[whole(0, list.length - 1)];
  const log = (low, high) => Number((low * (high / low) ** random()).toPrecision(6));

  function network() {
    const model = oneOf(models);
    const graph = { model: model.name };
    for (const p of model.params) {
      if (maybe(0.5)) continue;
      // Near the usual value, because large networks take long.
      graph[p.name] = whole(Math.max(p.low, Math.floor(p.usual / 2)), Math.min(p.high, Math.max(p.usual, p.low) + 2));
    }
    if (graph.width || graph.heads) delete graph.width, delete graph.heads; // one must divide the other
    return graph;
  }

  function device() {
    const d = { type: oneOf(["CPU", "GPU"]) };
    if (maybe(0.5)) d.speedup = log(0.1, 10);
    if (maybe(0.2)) d.flops_per_s = log(1e9, 1e13);
    if (maybe(0.2)) d.bytes_per_s = log(1e9, 1e12);
    if (maybe(0.2)) d.op_us = log(0.1, 100);
    if (maybe(0.1)) d.task = 1;
    return d;
  }

  const link = () => ({ latency_us: log(0.1, 1000), bytes_per_s: log(1e8, 1e11) });

  function cluster() {
    const mode = oneOf(MODES);
    const workers = whole(1, 12);
    const ps = whole(1, 4);
    const c = { mode, workers, ps, steps: whole(10, 80), seed: whole(1, 1e6) };
    const task = () => (maybe(0.6) || mode === "allreduce"
      ? { task: "worker", index: whole(0, workers - 1) }
      : { task: "ps", index: whole(0, ps - 1) });
    if (maybe(0.5)) Object.assign(c, { tail_ms: log(1, 200), tail_share: random() });
    if (maybe(0.5)) c.spread = log(0.01, 0.5);
    if (maybe(0.3)) c.ps_jitter = random();
    if (maybe(0.3)) c.rpc_tail_us = log(1, 1000);
    if (maybe(0.3)) c.shard = false;
    if (maybe(0.3)) c.duplex = false;
    if (maybe(0.3)) c.window = whole(1, 6);
    if (maybe(0.3)) Object.assign(c, { ps_bytes_per_s: log(1e8, 1e11), worker_bytes_per_s: log(1e8, 1e11) });
    if (maybe(0.2)) Object.assign(c, { hosts: whole(1, 4), cores: whole(1, 8) });
    if (maybe(0.3)) c.slow = [{ ...task(), factor: log(1, 10) }];
    if (maybe(0.3)) Object.assign(c, { checkpoint_s: log(0.5, 20), save_s: log(0.01, 0.5) });
    if (maybe(0.3)) c.crashes = [{ ...task(), at_s: log(0.05, 5) }];
    if (maybe(0.2)) c.worker_mtbf_s = log(5, 500);
    return c;
  }

  const plan = { title: `random plan ${seed}`, graph: network(), devices: [device()] };
  while (plan.devices.length < 5 && maybe(0.5)) plan.devices.push(device());
  if (maybe(0.6)) plan.link = link();
  if (maybe(0.3)) plan.network = link();
  plan.visits = whole(1000, 200000);
  if (maybe(0.5)) plan.cluster = cluster();
  return plan;
}
