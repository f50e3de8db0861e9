// The timeline of a step: one row for each device and each link in use, and the controls of the player.
//
// Rows are drawn on a canvas, because 10,000 spans as elements would be slow; a table has the same as text. The
// playhead is an element above the canvas, so that playing does not draw the spans again.
import { effect, untracked } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { deviceNames, playing, result, selected, time } from "./state";
import { describe, drawnRows, playPause, type Row, rows, seek, speed, SPEEDS, stepBack, stepForward } from "./player";
import { followPointers } from "./panzoom";
import { adoptStep, type Hit, Plot, range, readColors, setWindow, zoomWindow } from "./plot";
import { formatBytes, formatSeconds } from "./widgets";
import "./timeline.css";

const MOST_TABLE_ROWS = 2000;

interface Tip {
  hit: Hit;
  x: number; // in the plot, which is so wide
  y: number;
  width: number;
}

function SpanTip({ hit, x, y, width }: Tip) {
  const { row, span } = hit;
  const r = result.value;
  const op =
    row.device === null ? `tensor from ${span.transfer!.from} to ${span.transfer!.to}` : r?.nodes[span.node]?.op;
  // On the side that has more room.
  const side =
    x > width / 2
      ? { right: `${width - x + 12}px`, maxWidth: `${Math.min(340, x - 30)}px` }
      : { left: `${x + 12}px`, maxWidth: `${Math.min(340, width - x - 30)}px` };
  return (
    <div class="timeline-tip" role="status" style={{ ...side, top: `${y}px` }} data-test="timeline-tip">
      <b>{span.label === span.name ? span.name : `${span.label} (${span.name})`}</b>
      <span>{op}</span>
      <span>
        {formatSeconds(span.start_s)} to {formatSeconds(span.end_s)}
      </span>
      <span>
        {formatSeconds(span.end_s - span.start_s)}
        {span.transfer && `, ${formatBytes(span.transfer.bytes)}`}
      </span>
    </div>
  );
}

// The timeline as text. It is drawn over the graph, because the panel of the timeline shows only a few rows. The player
// below it stays usable, unless there is no room above it, such as on a phone: then the table takes the whole page.
function SpanTable({ onClose }: { onClose: () => void }) {
  const list = rows.value;
  const r = result.value;
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const place = () => {
      const { style } = box.current!;
      const panel = box.current!.parentElement!.getBoundingClientRect();
      const above = panel.top > 300 && panel.top < innerHeight && innerWidth > 700;
      style.left = above ? `${panel.left}px` : "8px";
      style.width = above ? `${panel.width}px` : `${innerWidth - 16}px`;
      style.top = above ? "56px" : "8px";
      style.bottom = above ? `${innerHeight - panel.top}px` : "8px";
    };
    place();
    box.current!.focus({ preventScroll: true });
    addEventListener("resize", place);
    return () => removeEventListener("resize", place);
  }, []);
  if (!r) return null;
  const total = list.reduce((sum, row) => sum + row.spans.length, 0);
  let left = MOST_TABLE_ROWS;
  return (
    <div
      ref={box}
      class="timeline-table"
      data-test="timeline-table"
      tabIndex={0}
      role="region"
      aria-label="Timeline as a table"
      onKeyDown={(e) => {
        if (e.key === "Escape") onClose();
        e.stopPropagation(); // arrows scroll the table
      }}>
      <div class="timeline-title">
        <b>Timeline as a table</b>
        <button type="button" class="button" data-test="timeline-table-close" onClick={onClose}>
          Close
        </button>
      </div>
      <table>
        <thead>
          <tr>
            <th>Row</th>
            <th>Node or tensor</th>
            <th>Op</th>
            <th>Start</th>
            <th>End</th>
            <th>Bytes</th>
          </tr>
        </thead>
        <tbody>
          {list.map((row) => {
            const part = row.spans.slice(0, left);
            left -= part.length;
            return part.map((s, i) => (
              <tr
                key={`${row.name} ${i}`}
                data-row={row.name}
                data-name={s.name}
                data-start={s.start_s}
                data-end={s.end_s}>
                <td>{row.name}</td>
                <td title={s.name}>{s.label}</td>
                <td>{s.transfer ? "" : r.nodes[s.node].op}</td>
                <td>{formatSeconds(s.start_s)}</td>
                <td>{formatSeconds(s.end_s)}</td>
                <td>{s.transfer ? formatBytes(s.transfer.bytes) : ""}</td>
              </tr>
            ));
          })}
        </tbody>
      </table>
      {total > MOST_TABLE_ROWS && (
        <p>
          The table shows {MOST_TABLE_ROWS} of {total} rows.
        </p>
      )}
    </div>
  );
}

export function TimelineView() {
  const frame = useRef<HTMLDivElement>(null);
  const axis = useRef<HTMLCanvasElement>(null);
  const body = useRef<HTMLCanvasElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const now = useRef<HTMLParagraphElement>(null);
  const clock = useRef<HTMLOutputElement>(null);
  const scrub = useRef<HTMLInputElement>(null);
  const plot = useRef<Plot | null>(null);
  const [tip, setTip] = useState<Tip | null>(null);
  const [asTable, setAsTable] = useState(false);
  const tableButton = useRef<HTMLButtonElement>(null);
  const closeTable = () => {
    setAsTable(false);
    tableButton.current?.focus();
  };
  const queued = useRef(0);

  const drawNow = () => {
    const p = plot.current;
    if (!p || !frame.current) return;
    if (p.width < 10) return; // hidden, or not measured yet
    p.draw(drawnRows.peek(), deviceNames.peek(), selected.peek());
    p.movePlayhead(time.peek());
  };
  // At most one drawing per frame.
  const draw = () => {
    if (queued.current) return;
    queued.current = requestAnimationFrame(() => {
      queued.current = 0;
      drawNow();
    });
  };

  useLayoutEffect(() => {
    const p = (plot.current = new Plot(axis.current!, body.current!, head.current!));
    p.colors = readColors(probe.current!);
    const recolor = () => {
      p.colors = readColors(probe.current!);
      draw();
    };
    const themes = new MutationObserver(recolor);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class", "style"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", recolor);
    // Only here is the size known without a new layout of the page. It is called at the beginning too.
    const sizes = new ResizeObserver(() => {
      p.width = frame.current!.clientWidth;
      p.height = frame.current!.clientHeight;
      drawNow();
    });
    sizes.observe(frame.current!);
    const stop = listen(p, draw, setTip);
    return () => {
      themes.disconnect();
      dark.removeEventListener("change", recolor);
      sizes.disconnect();
      stop();
      cancelAnimationFrame(queued.current);
      queued.current = 0;
    };
  }, []);

  // Spans under a point, panning, zooming and scrubbing.
  function listen(p: Plot, redraw: () => void, show: (t: Tip | null) => void): () => void {
    let scrubbing = false;
    const at = (e: { clientX: number; clientY: number }, of: HTMLElement) => {
      const b = of.getBoundingClientRect();
      return { x: e.clientX - b.left, y: e.clientY - b.top };
    };
    const point = (e: PointerEvent) => {
      const { x, y } = at(e, body.current!);
      const hit = p.hit(drawnRows.peek(), x, y);
      const outer = frame.current!.parentElement!.getBoundingClientRect();
      const here = { x: e.clientX - outer.left, y: e.clientY - outer.top };
      show(hit && { hit, x: here.x, y: Math.max(here.y, 36), width: outer.width });
      body.current!.style.cursor = hit ? "pointer" : "";
      return hit;
    };
    const changed = () => {
      show(null);
      redraw();
    };
    const stop = followPointers(body.current!, {
      moved: { current: false },
      wheelOn: frame.current!,
      pan: (dx) => {
        const shift = (-dx * (range.to - range.from)) / (p.width - p.gutter || 1);
        setWindow(range.from + shift, range.to + shift);
        changed();
      },
      zoom: (factor, { x }) => {
        zoomWindow(factor, p.timeAt(x));
        changed();
      },
      hover: (e) => {
        if (e.pointerType !== "touch") point(e);
      },
      tap: (e) => {
        const hit = point(e);
        const node = hit && hit.span.node >= 0 ? result.peek()?.nodes[hit.span.node]?.name : undefined;
        if (node !== undefined) selected.value = node;
      },
    });
    // A finger leaves as soon as it is lifted: what it showed stays until the next tap, wherever that is.
    const leave = (e: PointerEvent) => {
      if (e.pointerType !== "touch") show(null);
    };
    const elsewhere = (e: PointerEvent) => {
      if (e.target !== body.current) show(null);
    };
    const seekAt = (e: PointerEvent) => seek(p.timeAt(at(e, axis.current!).x));
    const axisDown = (e: PointerEvent) => {
      if (e.button !== 0) return;
      scrubbing = true;
      axis.current!.setPointerCapture(e.pointerId);
      playing.value = false;
      seekAt(e);
    };
    const axisMove = (e: PointerEvent) => {
      if (scrubbing) seekAt(e);
    };
    const axisUp = () => (scrubbing = false);
    const a = axis.current!;
    body.current!.addEventListener("pointerleave", leave);
    a.addEventListener("pointerdown", axisDown);
    a.addEventListener("pointermove", axisMove);
    a.addEventListener("pointerup", axisUp);
    a.addEventListener("pointercancel", axisUp);
    document.addEventListener("pointerdown", elsewhere);
    // The listeners of the axis and the rows go with their elements.
    return () => {
      stop();
      document.removeEventListener("pointerdown", elsewhere);
    };
  }

  useEffect(() => {
    const stops = [
      effect(() => {
        const r = result.value;
        drawnRows.value;
        if (r) adoptStep(r.step_s);
        untracked(drawNow);
      }),
      effect(() => {
        selected.value;
        untracked(draw);
      }),
      effect(() => {
        const t = time.value,
          r = result.value,
          p = plot.current;
        if (now.current) now.current.textContent = r ? describe(t) : "";
        if (clock.current) clock.current.textContent = r ? `${formatSeconds(t)} of ${formatSeconds(r.step_s)}` : "";
        if (scrub.current && r) {
          scrub.current.max = String(r.step_s);
          scrub.current.value = String(t);
          scrub.current.setAttribute("aria-valuetext", `${formatSeconds(t)} of ${formatSeconds(r.step_s)}`);
        }
        if (!p || p.width === 0) return;
        if (untracked(() => playing.value) && (t < range.from || t > range.to)) {
          // Follows the playhead page by page.
          const wide = range.to - range.from;
          setWindow(t - wide * 0.02, t - wide * 0.02 + wide);
          untracked(drawNow);
        }
        p.movePlayhead(t);
      }),
    ];
    return () => stops.forEach((stop) => stop());
  }, []);

  const zoom = (factor: number) => {
    const inside = time.value >= range.from && time.value <= range.to && time.value > 0;
    zoomWindow(factor, inside ? time.value : (range.from + range.to) / 2);
    draw();
  };
  const fit = () => {
    setWindow(0, range.step_s);
    draw();
  };
  const r = result.value;
  const on = playing.value;
  const list = rows.value;
  const drawn = drawnRows.value.length;
  const rowSummary = (row: Row) => {
    const busy = Math.round((row.busy_s / (r?.step_s || 1)) * 100);
    return `${row.name}: ${row.spans.length} ${row.device === null ? "transfers" : "nodes"}, busy ${busy} %`;
  };
  const summary = r ? `Timeline of ${formatSeconds(r.step_s)}. ${drawnRows.value.map(rowSummary).join(". ")}` : "Timeline";
  return (
    <div class="timeline" data-test="timeline" data-step={r?.step_s}>
      <div class="timeline-bar" role="group" aria-label="Player">
        <button
          type="button"
          data-test="step-back"
          aria-label="Step back"
          title="Back to the previous start or end"
          disabled={!r}
          onClick={stepBack}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M3 3h2v10H3zM13 3v10L6 8z" />
          </svg>
        </button>
        <button
          type="button"
          class="timeline-play"
          data-test="play"
          aria-label={on ? "Pause" : "Play"}
          title={on ? "Pause" : "Play"}
          disabled={!r}
          onClick={playPause}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d={on ? "M4 3h3v10H4zM9 3h3v10H9z" : "M4 2.5v11L13 8z"} />
          </svg>
        </button>
        <button
          type="button"
          data-test="step-forward"
          aria-label="Step forward"
          title="On to the next start or end"
          disabled={!r}
          onClick={stepForward}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M11 3h2v10h-2zM3 3v10l7-5z" />
          </svg>
        </button>
        <select
          data-test="play-speed"
          aria-label="Speed of playing"
          title="Speed of playing"
          value={String(speed.value)}
          onChange={(e) => (speed.value = Number(e.currentTarget.value))}>
          {SPEEDS.map((s) => (
            <option key={s} value={String(s)}>
              {s}×
            </option>
          ))}
        </select>
        <input
          ref={scrub}
          type="range"
          class="timeline-scrub"
          data-test="scrub"
          aria-label="Time in the step"
          min="0"
          max={r?.step_s ?? 1}
          step="any"
          disabled={!r}
          onInput={(e) => {
            playing.value = false;
            seek(Number(e.currentTarget.value));
          }}
        />
        <output ref={clock} class="timeline-clock" />
        <span class="timeline-zoom" role="group" aria-label="Zoom of the timeline">
          <button
            type="button"
            data-test="timeline-zoom-in"
            aria-label="Zoom in on the timeline"
            title="Zoom in"
            onClick={() => zoom(1.6)}>
            +
          </button>
          <button
            type="button"
            data-test="timeline-zoom-out"
            aria-label="Zoom out of the timeline"
            title="Zoom out"
            onClick={() => zoom(1 / 1.6)}>
            −
          </button>
          <button
            type="button"
            data-test="timeline-fit"
            aria-label="Show the whole timeline"
            title="Show the whole step"
            onClick={fit}>
            Fit
          </button>
          <button
            type="button"
            data-test="timeline-as-table"
            aria-pressed={asTable}
            title="Show the timeline as a table"
            ref={tableButton}
            onClick={() => setAsTable(!asTable)}>
            Table
          </button>
        </span>
      </div>
      <p ref={now} class="timeline-now" data-test="now" aria-live={on ? "off" : "polite"} />
      <div class="timeline-plot">
        <div ref={frame} class="timeline-frame" role="img" aria-label={summary}>
          <canvas ref={axis} class="timeline-axis" />
          <canvas ref={body} class="timeline-body" />
          <div ref={head} class="timeline-head" hidden />
        </div>
        {list.length > drawn && <p class="timeline-more">The busiest links; {list.length - drawn} more are in use.</p>}
        {tip && <SpanTip {...tip} />}
      </div>
      {asTable && <SpanTable onClose={closeTable} />}
      <span ref={probe} class="timeline-probe" aria-hidden="true" />
    </div>
  );
}
