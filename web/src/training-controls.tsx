// The numbers of the cluster: tasks, mode, checkpoints, random delays.
import { backupOf, modeOf, modes, number, percent, plural, seconds } from "./findings";
import { plan } from "./state";
import { edit, total, training } from "./training-state";
import type { Cluster, Mode } from "./types";
import { NumberField, type Quantity, Slider, TextField } from "./widgets";

const time: Quantity = {
  show: (x) => seconds(x),
  parse: (text) => {
    const m = /^(\d+\.?\d*|\.\d+)\s*(s|ms)?$/i.exec(text.trim().replace(",", "."));
    return m ? Number(m[1]) * (m[2]?.toLowerCase() === "ms" ? 1e-3 : 1) : null;
  },
};

// Sets a key, or removes it if the value is the usual one, so that addresses stay short.
function set(key: string, value: number, usualValue?: number): void {
  edit((c) => {
    if (value === usualValue) delete c[key];
    else c[key] = value;
  });
}

const numberOf = (c: Cluster | undefined, key: string, otherwise: number): number => {
  const v = c?.[key];
  return typeof v === "number" ? v : otherwise;
};

function ModeControl() {
  const mode = modeOf(plan.value.cluster);
  return (
    <fieldset class="training-modes" data-test="mode" data-value={mode}>
      <legend>How workers wait for each other</legend>
      <div class="training-segments">
        {modes.map((m) => (
          <label key={m.mode} class={`training-segment ${m.mode === mode ? "training-chosen" : ""}`} title={m.about}>
            <input
              type="radio"
              name="training-mode"
              value={m.mode}
              checked={m.mode === mode}
              data-test={`mode-${m.mode}`}
              onChange={() => chooseMode(m.mode)}
            />
            <span>{m.label}</span>
          </label>
        ))}
      </div>
      <p class="training-note" data-test="mode-about">
        {modes.find((m) => m.mode === mode)?.about}
      </p>
    </fieldset>
  );
}

// Events of parameter servers that all-reduce removed from a plan: they return when that plan leaves all-reduce.
let removed: { of: string; events: Pick<Cluster, "crashes" | "slow" | "cuts"> } | null = null;

const planKey = () => JSON.stringify([plan.value.title, plan.value.graph]);

function serverEvents(c: Cluster): Pick<Cluster, "crashes" | "slow" | "cuts"> {
  return {
    crashes: c.crashes?.filter((x) => x.task === "ps"),
    slow: c.slow?.filter((x) => x.task === "ps"),
    cuts: c.cuts?.filter((x) => x.ps !== undefined),
  };
}

// The number of machines stays: to use backup workers, one of the workers becomes a backup.
function chooseMode(mode: Mode): void {
  edit((c) => {
    const was = modeOf(c);
    if (mode === "allreduce" && was !== "allreduce") removed = { of: planKey(), events: serverEvents(c) };
    if (was === "allreduce" && mode !== "allreduce" && removed?.of === planKey()) {
      c.crashes = [...(c.crashes ?? []), ...(removed.events.crashes ?? [])];
      c.slow = [...(c.slow ?? []), ...(removed.events.slow ?? [])];
      c.cuts = [...(c.cuts ?? []), ...(removed.events.cuts ?? [])];
      removed = null;
    }
    const machines = (c.workers ?? 1) + backupOf(c);
    c.mode = mode;
    if (mode === "backup" && was !== "backup" && machines > 1) {
      c.workers = machines - 1;
      c.backup = 1;
    } else if (mode !== "backup") {
      c.workers = machines;
      delete c.backup; // a sync cluster with spare workers would be a backup cluster
    }
  });
}

function CheckpointControl() {
  const c = plan.value.cluster;
  const every = numberOf(c, "checkpoint_s", 0);
  const toggle = (on: boolean) => {
    const fifth = Math.max(total.value / 5, 0.01);
    const unit = 10 ** Math.floor(Math.log10(fifth));
    set("checkpoint_s", on ? Number((Math.max(1, Math.round(fifth / unit)) * unit).toPrecision(6)) : 0, 0);
  };
  return (
    <div class="training-check">
      <label>
        <input
          type="checkbox"
          data-test="checkpoint-on"
          checked={every > 0}
          onChange={(e) => toggle(e.currentTarget.checked)}
        />
        <span>Checkpoint every</span>
      </label>
      <TextField
        test="checkpoint-s"
        name="Time between checkpoints"
        text={every > 0 ? seconds(every) : "off"}
        accept={(text) => {
          if (/^off$/i.test(text.trim())) return 0;
          const v = time.parse(text);
          return v !== null && (v === 0 || v >= 1e-3) && v <= 1e9 ? v : null;
        }}
        onAccept={(v) => set("checkpoint_s", v, 0)}
      />
    </div>
  );
}

export function Controls() {
  const c = plan.value.cluster;
  const mode = modeOf(c);
  const workers = c?.workers ?? 1;
  const steps = numberOf(c, "steps", 0);
  return (
    <section class="training-controls" aria-label="Cluster">
      <h2>Cluster</h2>
      <Slider
        label="Workers"
        test="workers"
        value={workers}
        low={1}
        high={Math.max(64, workers)}
        most={10000}
        linear
        onChange={(v) => set("workers", Math.round(v))}
      />
      <fieldset class="training-plain" disabled={mode === "allreduce"}>
        <Slider
          label="Servers"
          name="Parameter servers"
          test="ps"
          value={c?.ps ?? 1}
          low={1}
          high={Math.max(16, c?.ps ?? 1)}
          most={1000}
          linear
          onChange={(v) => set("ps", Math.round(v))}
        />
      </fieldset>
      <ModeControl />
      {mode === "backup" && (
        <Slider
          label="Backup"
          name="Backup workers"
          test="backup"
          value={backupOf(c)}
          low={0}
          high={Math.max(8, backupOf(c))}
          most={1000}
          linear
          onChange={(v) => set("backup", Math.round(v))}
        />
      )}
      {mode === "backup" && (
        <p class="training-note" data-test="machines">
          {workers + backupOf(c)} machines: a step takes the first {plural(workers, "gradient")} and drops the rest.
        </p>
      )}
      {mode === "bounded" && (
        <Slider
          label="Delay"
          name="How many steps a worker may be ahead"
          test="delay"
          value={c?.delay ?? 4}
          low={0}
          high={Math.max(32, c?.delay ?? 4)}
          most={1000000}
          linear
          onChange={(v) => set("delay", Math.round(v))}
        />
      )}
      <h2>Failures and checkpoints</h2>
      <CheckpointControl />
      <Slider
        label="Restart"
        name="Time until a killed task runs again"
        test="restart-s"
        value={numberOf(c, "restart_s", 2)}
        low={0}
        high={20}
        most={1e6}
        linear
        step={0.5}
        quantity={time}
        onChange={(v) => set("restart_s", v, 2)}
      />
      <details class="training-more">
        <summary>More</summary>
        <label class="training-row">
          <span>Steps of each worker</span>
          <TextField
            test="steps"
            name="Steps of each worker"
            text={steps ? String(steps) : `${training.value?.steps ?? 200} (auto)`}
            accept={(text) =>
              /^(auto)?$/i.test(text.trim())
                ? 0
                : /^\d+$/.test(text.trim()) && +text >= 1 && +text <= 1e6
                  ? +text
                  : null
            }
            onAccept={(v) => set("steps", v, 0)}
          />
        </label>
        <Slider
          label="Jitter"
          name="Mean random delay of a step, in ms"
          test="tail-ms"
          value={numberOf(c, "tail_ms", 0)}
          low={0}
          high={100}
          most={1e6}
          linear
          quantity={{
            show: (x) => `${number(x)} ms`,
            parse: (s) => (Number.isFinite(parseFloat(s)) ? parseFloat(s) : null),
          }}
          onChange={(v) => set("tail_ms", v, 0)}
        />
        <Slider
          label="Share"
          name="Share of steps with a random delay"
          test="tail-share"
          value={numberOf(c, "tail_share", 1)}
          low={0}
          high={1}
          linear
          step={0.05}
          quantity={{ show: percent, parse: (s) => (Number.isFinite(parseFloat(s)) ? parseFloat(s) / 100 : null) }}
          onChange={(v) => set("tail_share", v, 1)}
        />
        <Slider
          label="Save"
          name="Time to write a checkpoint"
          test="save-s"
          value={numberOf(c, "save_s", 0.2)}
          low={0}
          high={5}
          most={1e6}
          linear
          step={0.1}
          quantity={time}
          onChange={(v) => set("save_s", v, 0.2)}
        />
        <Slider
          label="Restore"
          name="Time to restore a checkpoint"
          test="restore-s"
          value={numberOf(c, "restore_s", 0.2)}
          low={0}
          high={5}
          most={1e6}
          linear
          step={0.1}
          quantity={time}
          onChange={(v) => set("restore_s", v, 0.2)}
        />
        <label class="training-row">
          <span>Seed of random numbers</span>
          <NumberField
            test="seed"
            name="Seed of random numbers"
            value={numberOf(c, "seed", 1)}
            low={0}
            high={9e15}
            onChange={(v) => set("seed", v, 1)}
          />
        </label>
      </details>
    </section>
  );
}
