// The cluster as a picture: each task is a box with its state at the playhead and the buttons that act on it.
import {
  type Asked,
  type Task,
  activeAt,
  backupOf,
  modeOf,
  number,
  percent,
  plural,
  seconds,
  serversOf,
  sharesOf,
  stateAt,
  taskName,
  workersOf,
} from "./findings";
import { plan } from "./state";
import {
  checkpointNow,
  chosen,
  cut,
  events,
  hint,
  isSlow,
  kill,
  lanes,
  moveTo,
  now,
  picked,
  playing,
  remove,
  slow,
  slowFactor,
  togglePlay,
  total,
  training,
} from "./training-state";
import { Button, TextField, factor } from "./widgets";

const COMPACT = 16; // more tasks of a kind than this are drawn small

const stateTests = (t: Task) => `state-${t.kind}-${t.index}`;

function ShareBar(p: { index: number }) {
  const s = sharesOf(training.value?.each_worker?.[p.index]);
  if (!s) return null;
  const down = s.down > 0 ? `, down ${percent(s.down)}` : "";
  const text =
    `computes ${percent(s.compute)}, transfers ${percent(s.transfer)}, waits ${percent(s.wait)}${down} ` +
    "of its time";
  return (
    <>
      <span class="training-shares" role="img" aria-label={text} title={text}>
        {(["compute", "transfer", "wait", "down"] as const).map((k) => (
          <span key={k} class={`training-fill-${k}`} style={{ width: `${s[k] * 100}%` }} />
        ))}
      </span>
      <span class="training-share-text">waits {percent(s.wait)}</span>
    </>
  );
}

function TaskButtons(p: { task: Task; long?: boolean; down?: boolean }) {
  const t = p.task;
  const c = plan.value.cluster;
  const slowed = activeAt(c, "slow", t, now.value) >= 0;
  const off = t.kind === "worker" && activeAt(c, "cuts", t, now.value) >= 0;
  const name = taskName(t);
  const times = number(slowFactor.value);
  return (
    <span class="training-task-buttons">
      <Button
        test={`kill-${t.kind}-${t.index}`}
        aria-label={`Kill ${name}`}
        title={p.down ? `${name} is down at the time of the playhead` : `Kill ${name} at the time of the playhead`}
        disabled={p.down}
        onClick={() => kill(t)}>
        Kill
      </Button>
      <Button
        test={`slow-${t.kind}-${t.index}`}
        pressed={slowed}
        aria-label={slowed ? `Slowed: let ${name} run at full speed again` : `Slow ${name} down ${times} times`}
        title={
          slowed ? `Back to normal: let ${name} run at full speed` : `Make ${name} ${times} times slower from the playhead on`
        }
        onClick={() => slow(t)}>
        {slowed ? "Slowed" : "Slow"}
      </Button>
      {t.kind === "worker" && (
        <Button
          test={`cut-worker-${t.index}`}
          pressed={off}
          aria-label={off ? `Cut off: mend the link of ${name}` : `Cut the link of ${name}`}
          title={off ? `Mend the link of ${name}` : `Cut the link of ${name} for a while`}
          onClick={() => cut(t)}>
          {off ? "Cut off" : p.long ? "Cut link" : "Cut"}
        </Button>
      )}
    </span>
  );
}

// The plan says how slow a task is; the badge stays while the playhead is in that period.
function slowBadge(t: Task): string | null {
  const c = plan.value.cluster;
  const i = activeAt(c, "slow", t, now.value);
  return i >= 0 ? `${number(c!.slow![i].factor ?? 2)}× slower` : null;
}

function TaskBox(p: { task: Task; small: boolean }) {
  const t = p.task;
  const tr = training.value;
  const state = tr ? stateAt(tr, lanes.value, t, now.value) : { kind: "idle" as const, text: "" };
  const badge = slowBadge(t);
  const backup = t.kind === "worker" && modeOf(plan.value.cluster) === "backup";
  const dropped = t.kind === "worker" ? (tr?.each_worker?.[t.index]?.dropped ?? 0) : 0;
  const label = `${taskName(t)}: ${state.text}${badge ? `, ${badge}` : ""}`;
  const className = `training-task training-state-${state.kind} ${badge ? "training-slowed" : ""}`;
  if (p.small)
    return (
      <button
        type="button"
        class={`${className} training-small ${chosen.value === t.id ? "training-picked" : ""}`}
        aria-label={label}
        title={label}
        aria-pressed={chosen.value === t.id}
        data-test={`pick-${t.kind}-${t.index}`}
        data-state={state.kind}
        onClick={() => (picked.value = t.id)}>
        {t.index}
      </button>
    );
  return (
    <div class={className} role="group" aria-label={label} data-test={stateTests(t)} data-state={state.kind}>
      <div class="training-task-head">
        <b>{taskName(t)}</b>
        {badge && <span class="training-badge">{badge}</span>}
      </div>
      <div class="training-task-state">
        <span class={`training-dot training-fill-${state.kind}`} />
        {state.text}
      </div>
      {t.kind === "worker" && (
        <div class="training-task-shares" title={backup ? "The slowest gradients of each step are dropped" : undefined}>
          <ShareBar index={t.index} />
          {dropped > 0 && (
            <span class="training-share-text" data-test={`dropped-${t.index}`} title="Gradients that came too late">
              {number(dropped)} dropped
            </span>
          )}
        </div>
      )}
      <TaskButtons task={t} down={state.kind === "down"} />
    </div>
  );
}

function Playhead() {
  const at = now.value;
  return (
    <div class="training-playhead">
      <Button
        test="training-play"
        kind="training-round"
        aria-label={playing.value === "all" ? "Pause" : "Play the whole training"}
        onClick={() => togglePlay("all")}>
        {playing.value === "all" ? "❚❚" : "▶"}
      </Button>
      <input
        type="range"
        data-test="training-scrub"
        data-value={at}
        aria-label="Playhead of the training"
        aria-valuetext={seconds(at)}
        min={0}
        max={1000}
        step={1}
        value={total.value > 0 ? (at / total.value) * 1000 : 0}
        onInput={(e) => {
          moveTo((Number(e.currentTarget.value) / 1000) * total.value);
        }}
      />
      <span class="training-clock">
        <b>{seconds(at)}</b> of {seconds(total.value)}
      </span>
      <Button test="checkpoint-now" title="Write a checkpoint at the time of the playhead" onClick={checkpointNow}>
        Checkpoint now
      </Button>
    </div>
  );
}

function Chips() {
  const list = events.value;
  const late = (a: Asked) => total.value > 0 && a.start_s > total.value;
  return (
    <>
      {list.length > 0 && (
        <ul class="training-chips" aria-label="Events" data-test="training-events">
          {list.map((a, i) => (
            <li
              key={`${a.list}-${a.at}`}
              class={`training-chip training-chip-${a.list} ${late(a) ? "training-late" : ""}`}>
              <button
                type="button"
                class="training-chip-time"
                title="Move the playhead there"
                onClick={() => moveTo(a.start_s)}>
                {a.text}
                {late(a) && " (after the end)"}
              </button>
              <button
                type="button"
                class="training-chip-x"
                data-test={`remove-event-${i}`}
                aria-label={`Remove: ${a.text}`}
                onClick={() => remove(a)}>
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      {hint.value && (
        <p class="training-note" role="status">
          {hint.value}
        </p>
      )}
    </>
  );
}

const MOST_BOXES = 128;

function Tasks(p: { list: Task[]; kind: string }) {
  const small = p.list.length > COMPACT;
  const shown = p.list.slice(0, MOST_BOXES);
  return (
    <div class={`training-tasks training-${p.kind} ${small ? "training-tasks-small" : ""}`}>
      {shown.map((t) => (
        <TaskBox key={t.id} task={t} small={small} />
      ))}
      {shown.length < p.list.length && <span class="training-note">and {p.list.length - shown.length} more</span>}
    </div>
  );
}

export function ClusterPicture() {
  const c = plan.value.cluster;
  const workers = workersOf(c);
  const servers = serversOf(c);
  const small = [workers, servers].filter((l) => l.length > COMPACT).flat();
  const who = small.find((t) => t.id === chosen.value) ?? small[0];
  return (
    <section class="training-panel" aria-label="Picture of the cluster">
      <div class="training-head">
        <h2>The cluster at {seconds(now.value)}</h2>
        <span class="training-note">Kill, Slow and Cut (its link) act at this time.</span>
        <label class="training-note training-factor" title="How many times slower the button Slow makes a task">
          Slow makes it
          <TextField
            test="slow-factor"
            name="How many times slower the button Slow makes a task"
            text={factor.show(slowFactor.value)}
            accept={(text) => {
              const x = factor.parse(text);
              return x !== null && isSlow(x) ? x : null;
            }}
            onAccept={(x) => (slowFactor.value = x)}
          />
          slower
        </label>
      </div>
      <Playhead />
      <Chips />
      {servers.length > 0 && <Tasks list={servers} kind="servers" />}
      <div class="training-wire" aria-hidden="true">
        <span>
          {servers.length
            ? "parameters ↓ ↑ gradients"
            : "no parameter servers: the workers exchange gradients in a ring"}
        </span>
      </div>
      <Tasks list={workers} kind="workers" />
      {modeOf(c) === "backup" && backupOf(c) > 0 && (
        <p class="training-note" data-test="backup-about">
          No particular worker is the backup: each step takes the first {plural(c?.workers ?? 1, "gradient")} of{" "}
          {workers.length}, and any worker may be the one whose gradient is dropped.
        </p>
      )}
      {who && (
        <div class="training-picked-row">
          <b>{taskName(who)}</b>
          {who.kind === "worker" && (
            <span class="training-task-shares">
              <ShareBar index={who.index} />
            </span>
          )}
          <TaskButtons task={who} long />
        </div>
      )}
    </section>
  );
}
