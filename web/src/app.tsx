// The frame of the page: header, stories, network, the views, errors.
import { useEffect } from "preact/hooks";
import { signal } from "@preact/signals";
import { api } from "./api";
import { currentAddress, followAddress, openAddress } from "./address";
import { COPIES, DevicesView } from "./devices";
import { DropOverlay, FileButton, openFile } from "./drop";
import { GraphView } from "./graph";
import { playPause, stepBack, stepForward } from "./player";
import {
  busy, change, error, expanded, files, messageOf, models, narrow, notice, plan, result, selected, story, tab, theme,
  time, toggleTheme, unreachable,
} from "./state";
import { exampleWord, number as figure } from "./findings";
import { currentVariant, openStory, stories } from "./stories";
import { TimelineView } from "./timeline";
import { TrainingView } from "./training";
import type { Training } from "./types";
import { WhyView } from "./why";
import { Button, compareTimes, formatSeconds, NumberField, threeDigits } from "./widgets";

const copied = signal<string | null>(null); // the answer to "Copy link"

let following = false;

// Asks the server what it has and shows the state of the address, the first file of the command line or story 1.
async function start(): Promise<void> {
  const fallback = () => void openStory(1);
  try {
    const s = await api.start();
    models.value = s.models;
    files.value = s.files;
  } catch (e) {
    // The stories may still work, and the message says what is wrong.
    notice.value = messageOf(e);
  }
  // Who chose a story before the server had answered keeps it.
  const isChosen = () => plan.value.graph !== undefined;
  if (isChosen()) {
    if (error.value) void change(() => undefined);
  } else if (!(await openAddress()) && !isChosen()) {
    // Files that were dropped onto another page are in the list too; only the command line asks to open one.
    const given = files.value.find((f) => f.id.startsWith("f"));
    if (given && !notice.value) void openFile(given);
    else fallback();
  }
  if (!following) followAddress(fallback);
  following = true;
}

async function copyLink(): Promise<void> {
  const url = await currentAddress();
  try {
    await navigator.clipboard.writeText(url);
    copied.value = "Copied";
  } catch {
    // Without permission the link is at least in the address bar.
    copied.value = "See address bar";
  }
  setTimeout(() => (copied.value = null), 2500);
}

// Space plays and pauses, arrows step, unless the focus is on something that uses these keys itself.
function onKey(e: KeyboardEvent): void {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || tab.value !== "step") return;
  const target = e.target as HTMLElement;
  if (target.closest("input, select, textarea, [contenteditable], [role=slider], [role=tab]")) return;
  if (e.key === " " && !target.closest("button, a, summary, [role=button], [role=treeitem]")) playPause();
  else if (e.key === "ArrowRight") stepForward();
  else if (e.key === "ArrowLeft") stepBack();
  else return;
  e.preventDefault();
}

function Tabs() {
  return (
    <div class="board-tabs" role="tablist" aria-label="View">
      {(["step", "training"] as const).map((t) => (
        <button key={t} type="button" class="button" role="tab" data-test={`tab-${t}`} id={`tab-${t}`}
          aria-selected={tab.value === t} tabIndex={tab.value === t ? 0 : -1}
          onClick={() => (tab.value = t)}
          onKeyDown={(e) => {
            if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
            tab.value = t === "step" ? "training" : "step";
            document.getElementById(`tab-${tab.value}`)?.focus();
          }}>
          {t === "step" ? "Step" : "Training"}
        </button>
      ))}
    </div>
  );
}

// The title of the story with its variants, a way back to its beginning, and the next one.
function StoryActions() {
  const number = story.value;
  if (number === null)
    return (
      <>
        <span class="board-title">{plan.value.title}</span>
        <Button test="story-next" kind="quiet" onClick={() => void openStory(1)}>First story →</Button>
      </>
    );
  const s = stories[number - 1];
  const variant = currentVariant(number);
  return (
    <>
      <span class="board-title">{s.title}</span>
      {s.variants?.map((v, i) => (
        <Button key={i} test={`story-${number}-${i + 1}`} pressed={variant === i}
          onClick={() => void openStory(number, i)}>
          {v.label}
        </Button>
      ))}
      {number < stories.length && (
        <Button test="story-next" onClick={() => void openStory(number + 1)}>
          Next: {stories[number].title} →
        </Button>
      )}
    </>
  );
}

function Actions() {
  const otherTheme = theme.value === "dark" ? "Light" : "Dark";
  return (
    <>
      <FileButton />
      <Button test="copy-link" onClick={() => void copyLink()}>{copied.value ?? "Copy link"}</Button>
      <Button test="theme" onClick={toggleTheme} aria-label={`Switch to the ${otherTheme.toLowerCase()} theme`}>
        {otherTheme}
      </Button>
    </>
  );
}

const ABOUT = "A simulation for everyone who learns, teaches or plans training on many devices: it computes how long a " +
  "step and a training would take. Nothing is trained.";

function Header() {
  const number = story.value;
  return (
    <header class="board-header">
      <div class="board-name" title={ABOUT}>
        <h1>Millrace <span>board</span></h1>
        <p>simulates training on many devices</p>
      </div>
      <nav class="board-stories" aria-label="Stories">
        {stories.map((s, i) => (
          <Button key={i} test={`story-${i + 1}`} pressed={number === i + 1} title={s.title}
            aria-label={`Story ${i + 1}: ${s.title}`} onClick={() => void openStory(i + 1)}>
            {i + 1}
          </Button>
        ))}
      </nav>
      <StoryActions />
      <div class="board-actions">
        <Tabs />
        {!narrow.value && <Actions />}
      </div>
    </header>
  );
}

// The text is about the plan and the tab of its story. After a change it stays, because it may have asked for that
// change, but a mark says that it is about the story as it began.
function StoryText() {
  const number = story.value;
  const s = number === null ? null : stories[number - 1];
  const changed = number !== null && currentVariant(number) < 0;
  return (
    <section class="board-story" aria-label="Story">
      {s && number ? (
        <>
        <p>
          {changed && (
            <>
              <b class="board-chip" data-test="story-changed">Changed</b> The text is about the story as it began.{" "}
              <button type="button" class="board-link" data-test="story-reset" title="Undo all changes"
                onClick={() => void openStory(number)}>Start over</button>{" "}
            </>
          )}
          {!changed && tab.value !== s.tab && (
            <>
              <b data-test="story-elsewhere">This text is about the {s.tab}.</b>{" "}
              <button type="button" class="board-link" data-test="story-back" onClick={() => (tab.value = s.tab)}>
                Back to it
              </button>{" "}
            </>
          )}
          <span data-test="story-text" class={changed || tab.value !== s.tab ? "muted" : ""}>{s.text}</span>
        </p>
        </>
      ) : (
        <p class="muted">
          Move a slider, or choose a node in the graph: every change is simulated again at once. The buttons 1 to 6 open
          stories that explain what you see.
        </p>
      )}
    </section>
  );
}

function chooseNetwork(value: string): void {
  const file = value.startsWith("file:") ? files.value.find((f) => f.id === value.slice(5)) : undefined;
  if (file) {
    void openFile(file);
    return;
  }
  selected.value = null;
  expanded.value = new Set();
  time.value = 0;
  // Pins name nodes of the old network.
  void change((p) => {
    p.graph = { model: value };
    delete p.pins;
    delete p.title;
  });
}

function Network() {
  const g = plan.value.graph ?? {};
  const model = models.value.find((m) => m.name === g.model);
  const value = g.file ? `file:${g.file}` : (g.model ?? "");
  const known = model || files.value.some((f) => f.id === g.file);
  const params = model?.params.map((p) => (
    <label key={`${model.name}-${p.name}`} title={p.about}>
      {p.name}
      <NumberField test={`param-${p.name}`} name={`${p.name}: ${p.about}`} low={p.low} high={p.high}
        value={typeof g[p.name] === "number" ? (g[p.name] as number) : p.usual}
        onChange={(v) => void change((q) => { q.graph![p.name] = v; })} />
    </label>
  ));
  return (
    <section class="board-network" aria-label="Network">
      <label>
        Network
        <select class="select" data-test="model" title={model?.about} value={value}
          onChange={(e) => chooseNetwork(e.currentTarget.value)}>
          {!known && <option value={value}>{g.file ?? g.model ?? "none"}</option>}
          {files.value.length > 0 && (
            <optgroup label="Files">
              {files.value.map((f) => <option key={f.id} value={`file:${f.id}`}>{f.name}</option>)}
            </optgroup>
          )}
          <optgroup label="Built-in networks">
            {models.value.map((m) => <option key={m.name} value={m.name}>{m.name}</option>)}
          </optgroup>
        </select>
      </label>
      {narrow.value && params?.length ? (
        <details>
          <summary data-test="params">Size of the network</summary>
          <div class="board-params">{params}</div>
        </details>
      ) : params}
    </section>
  );
}

// "1.79× faster than gpu0 or gpu1 alone": devices that are equally fast alone share a line. Pinned nodes stay where they
// are, so with pins no device is alone.
function Alone() {
  const r = result.value!;
  if (r.devices.length < 2)
    return <p class="board-alone muted" title={COPIES}>on one device, {r.step_nodes} nodes</p>;
  const pins = Boolean(plan.value.pins?.length);
  const groups = new Map<number, string[]>();
  for (const d of r.devices) if (d.alone_s !== null) groups.set(d.alone_s, [...(groups.get(d.alone_s) ?? []), d.name]);
  const lines = [...groups].sort((a, b) => a[0] - b[0]).map(([s, names]) => ({
    how: compareTimes(r.step_s, s), who: names.length > 2 ? `${names[0]}, ${names[1]} …` : names.join(" or "),
    title: pins ? `All nodes that are not pinned on ${names.join(" or ")}: ${formatSeconds(s)}`
      : `${names.join(" or ")} alone: ${formatSeconds(s)}`,
  }));
  // There is room for two lines: the fastest and the slowest device.
  const shown = lines.length > 2 ? [lines[0], lines[lines.length - 1]] : lines;
  return (
    <ul class="board-alone" data-test="alone" title={lines.map((l) => l.title).join("\n")}>
      {shown.map((l) => <li key={l.who}><b>{l.how}</b> {l.who}{pins ? " alone, except for pinned nodes" : " alone"}</li>)}
    </ul>
  );
}

// "9786 images/s: 3.73× one worker". A step of the cluster takes longer than that of one worker, but it uses the examples
// of all workers, so only examples per second say what the cluster is good for.
function ClusterRate(p: { training: Training }) {
  const g = plan.value.graph;
  const usual = models.value.find((m) => m.name === g?.model)?.params.find((x) => x.name === "batch")?.usual;
  const batch = g?.file || usual === undefined ? 1 : typeof g?.batch === "number" ? g.batch : usual;
  const alone = batch / result.value!.step_s;
  const rate = p.training.examples_per_s;
  const times = rate / alone;
  return (
    <li title={`One worker alone: ${figure(alone)} ${exampleWord(g?.model).many}/s`}>
      <b data-test="cluster-rate" data-value={rate}>{figure(rate)} {exampleWord(g?.model).many}/s</b>:{" "}
      <b data-test="cluster-times" data-value={times}>{threeDigits(times)}×</b> one worker
    </li>
  );
}

function Readout() {
  const r = result.value;
  const t = tab.value === "training" ? r?.training : undefined;
  const failed = (t?.losses?.length ?? 0) > 0; // then the time of a usual step says little
  const median = tab.value === "training" ? r?.training?.step_s.median : null;
  const ofWorker = (
    <strong data-test="step-time" data-value={r?.step_s} aria-live="polite">{formatSeconds(r?.step_s)}</strong>
  );
  return (
    <section class={`board-readout ${error.value ? "stale" : ""}`} aria-label="Step time">
      {r && median ? (
        <>
          {failed ? (
            <div class="board-time" title="With all its failures">
              <span class="muted">The whole training</span>
              <strong data-test="in-total" data-value={t!.total_s}>{formatSeconds(t!.total_s)}</strong>
            </div>
          ) : (
            <div class="board-time" title="The median of the steps of the simulated training">
              <span class="muted">Step of the cluster</span>
              <strong data-test="in-cluster" data-value={median}>{formatSeconds(median)}</strong>
            </div>
          )}
          <ul class="board-alone">
            <ClusterRate training={t!} />
            <li>step of one worker alone: {ofWorker}</li>
          </ul>
        </>
      ) : (
        <>
          <div class="board-time">
            <span class="muted">{tab.value === "training" ? "Step of one worker" : "Simulated step time"}</span>
            {ofWorker}
          </div>
          {r && tab.value === "step" && <Alone />}
        </>
      )}
      <span class="board-busy" data-test="busy" data-on={busy.value} role="status"
        aria-label={busy.value ? "Simulating" : "Up to date"} />
    </section>
  );
}

function Alerts() {
  const messages: [string, () => void][] = [];
  if (notice.value) messages.push([notice.value, () => (notice.value = null)]);
  if (error.value && error.value !== notice.value) messages.push([error.value, () => (error.value = null)]);
  if (!messages.length) return null;
  const tryAgain = () => {
    notice.value = null;
    void (models.value.length ? change(() => undefined) : start());
  };
  return (
    <div class="board-alerts">
      {messages.map(([text, close], i) => (
        <div key={i} class="board-alert" role="alert" data-test="error">
          <p>{text}</p>
          {unreachable.value && i === 0 && <Button test="try-again" onClick={tryAgain}>Try again</Button>}
          <Button test="error-close" kind="quiet" aria-label="Close this message" onClick={close}>×</Button>
        </div>
      ))}
    </div>
  );
}

// Room for all devices and links. Links that are not in use count too, so that the height does not change while a
// slider moves.
function timelineHeight(): string {
  const n = plan.value.devices?.length ?? 1;
  return `${100 + 25 * n + 17 * n * (n - 1)}px`;
}

function StepTab() {
  const stale = error.value ? "stale" : "";
  const none = error.value ? "There is no result to show." : "Simulating …";
  return (
    <>
      <section class={`board-graph panel ${stale}`} aria-label="Graph" id="main" tabIndex={-1}>
        {result.value ? <GraphView /> : <p class="board-empty">{none}</p>}
      </section>
      <div class="board-side">
        {/* After a node was chosen in the graph, Tab reaches its buttons first, although they are below the devices. */}
        <WhyView />
        <DevicesView />
      </div>
      <section class={`board-timeline panel ${stale}`} aria-label="Timeline"
        style={{ "--timeline-height": timelineHeight() }}>
        {result.value ? <TimelineView /> : <p class="board-empty">{none}</p>}
      </section>
    </>
  );
}

let started = false;

export function App() {
  useEffect(() => {
    if (started) return;
    started = true;
    void start();
    addEventListener("keydown", onKey);
    addEventListener("unhandledrejection", (e) => (notice.value = messageOf(e.reason)));
    addEventListener("error", (e) => (notice.value = e.message));
  }, []);
  return (
    <div class="board">
      <a class="board-skip" href="#main" onClick={(e) => {
        // The fragment of the address belongs to the state of the page.
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the main part</a>
      <Header />
      <main class={`board-tab board-tab-${tab.value}`}>
        <StoryText />
        <Readout />
        <Network />
        {tab.value === "step" ? <StepTab /> : (
          <section class="board-training panel" aria-label="Training" id="main" tabIndex={-1}><TrainingView /></section>
        )}
      </main>
      {/* On a phone these would push what matters off the first screen. */}
      {narrow.value && <footer class="board-footer"><Actions /></footer>}
      <Alerts />
      <DropOverlay />
      <div class="hidden" role="status">{copied.value}</div>
    </div>
  );
}
