// The drawing of the timeline: rows of spans on a canvas, the axis above them, and the piece of time that is shown.
import { lastStarted, type Row, type Span } from "./player";
import { shorten } from "./scopes";

const AXIS = 20; // height of the axis
const DEVICE_ROW = 25;
const LINK_ROW = 17;
const GAP = 3; // between rows
const FONT = "11px system-ui, sans-serif";

interface Colors {
  text: string;
  muted: string;
  line: string;
  accent: string;
  panel: string;
  idle: string;
  transfer: string;
  onDevice: string;
  devices: string[];
}

// A canvas needs colours as values, not as custom properties.
export function readColors(probe: HTMLElement): Colors {
  const value = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  return {
    text: value("--text"),
    muted: value("--muted"),
    line: value("--line"),
    accent: value("--accent"),
    panel: value("--panel"),
    idle: value("--idle"),
    transfer: value("--transfer"),
    onDevice: value("--on-device"),
    devices: [0, 1, 2, 3, 4, 5, 6, 7].map((i) => value(`--device-${i}`)),
  };
}

// Marks of the axis: about one in 90 pixels (more on a narrow screen), at 1, 2 or 5 times a power of ten, with one
// unit for all.
export function axisMarks(from: number, to: number, width: number): { at: number; label: string }[] {
  const most = Math.max(4, width / 90);
  const rough = (to - from) / most || 1e-9;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999) ?? power * 10;
  const [unit, name] = to >= 1 ? [1, "s"] : to >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  const digits = Math.max(0, -Math.floor(Math.log10((step / unit) * 1.001)));
  const marks: { at: number; label: string }[] = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12) && marks.length < 200; i++)
    marks.push({ at: i * step, label: i === 0 ? "0" : `${((i * step) / unit).toFixed(Math.min(6, digits))} ${name}` });
  return marks;
}

// The piece of time that is shown, and where. It outlives the component, so that changing tabs keeps it.
export const range = { from: 0, to: 0, step_s: 0 };

export interface Hit {
  row: Row;
  span: Span;
}

export class Plot {
  width = 0; // of the frame around axis and rows
  height = 0;
  gutter = 0; // of the names of rows
  colors!: Colors;
  private tops: number[] = [0];
  private ends = new WeakMap<Row, Float64Array>();

  constructor(
    private axis: HTMLCanvasElement,
    private body: HTMLCanvasElement,
    private head: HTMLElement,
  ) {}

  private wanted = 0; // height of axis and rows

  // Sets the upper edges of the rows, and the lower edge of the last one. Rows are up to 1.5 times as high if there is
  // room for that.
  private placeRows(list: Row[]) {
    const least = list.reduce((sum, r) => sum + (r.device === null ? LINK_ROW : DEVICE_ROW), 0);
    if (least + AXIS + 4 !== this.wanted) {
      this.wanted = least + AXIS + 4;
      this.axis.closest<HTMLElement>(".timeline-plot")!.style.setProperty("--height", `${this.wanted}px`);
    }
    const factor = Math.min(1.5, Math.max(1, (this.height - AXIS - 2) / (least || 1)));
    this.tops = [0];
    for (const r of list)
      this.tops.push(this.tops[this.tops.length - 1] + Math.floor((r.device === null ? LINK_ROW : DEVICE_ROW) * factor));
  }

  xOf(t: number): number {
    return this.gutter + ((t - range.from) / (range.to - range.from)) * (this.width - this.gutter);
  }

  timeAt(x: number): number {
    return range.from + ((x - this.gutter) / (this.width - this.gutter)) * (range.to - range.from);
  }

  // The greatest end of all spans up to each one: where to begin when only a part of a row is shown.
  private greatestEnds(row: Row): Float64Array {
    let list = this.ends.get(row);
    if (!list) {
      list = new Float64Array(row.spans.length);
      let end = 0;
      row.spans.forEach((s, i) => (list![i] = end = Math.max(end, s.end_s)));
      this.ends.set(row, list);
    }
    return list;
  }

  private prepare(canvas: HTMLCanvasElement, height: number): CanvasRenderingContext2D {
    const scale = devicePixelRatio || 1;
    const w = Math.round(this.width * scale),
      h = Math.round(height * scale);
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.height = `${height}px`;
    }
    const c = canvas.getContext("2d")!;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, this.width, height);
    c.font = FONT;
    c.textBaseline = "middle";
    return c;
  }

  draw(list: Row[], devices: string[], chosen: string | null) {
    const { colors } = this;
    this.placeRows(list);
    const { tops } = this;
    const height = tops[tops.length - 1];
    const c = this.prepare(this.body, height);
    const a = this.prepare(this.axis, AXIS);
    const measure = (s: string) => c.measureText(s).width;
    this.gutter = Math.min(this.width * 0.3, Math.max(56, ...list.map((r) => Math.ceil(measure(r.name)) + 16)));
    const { gutter, width } = this;

    // The axis, and its lines through the rows.
    const marks = axisMarks(range.from, range.to, width - gutter);
    a.fillStyle = colors.muted;
    a.textAlign = "center";
    for (const m of marks) {
      const x = Math.round(this.xOf(m.at)) + 0.5;
      const half = measure(m.label) / 2;
      if (x + half <= width) a.fillText(m.label, Math.max(x, gutter + 6 + half), AXIS / 2 - 1.5);
      a.fillRect(x - 0.5, AXIS - 4, 1, 4);
    }

    c.fillStyle = colors.idle;
    list.forEach((_, i) => c.fillRect(gutter, tops[i] + GAP / 2, width - gutter, tops[i + 1] - tops[i] - GAP));
    c.fillStyle = colors.line;
    for (const m of marks) c.fillRect(Math.round(this.xOf(m.at)), 0, 1, height);
    list.forEach((row, i) => this.drawRow(c, row, tops[i], tops[i + 1] - tops[i] - GAP, devices, chosen));

    // Names over everything that begins left of the window.
    c.fillStyle = colors.panel;
    c.fillRect(0, 0, gutter, height);
    c.textAlign = "left";
    list.forEach((row, i) => {
      c.fillStyle = row.device === null ? colors.muted : colors.text;
      c.fillText(fitText(row.name, gutter - 10, measure), 6, (tops[i] + tops[i + 1]) / 2);
    });
  }

  private drawRow(
    c: CanvasRenderingContext2D,
    row: Row,
    top: number,
    tall: number,
    devices: string[],
    chosen: string | null,
  ) {
    const { colors, gutter, width } = this;
    const ends = this.greatestEnds(row);
    let i = 0,
      high = row.spans.length;
    while (i < high) {
      const middle = (i + high) >> 1;
      if (ends[middle] <= range.from) i = middle + 1;
      else high = middle;
    }
    const last = lastStarted(row.spans, range.to);
    const number = row.device === null ? -1 : devices.indexOf(row.device);
    const fill = number < 0 ? colors.transfer : colors.devices[number % 8];
    const outlined: [number, number][] = [];
    const scope = chosen?.endsWith("/") ? chosen : null;
    const y = top + GAP / 2;
    c.save();
    c.beginPath();
    c.rect(gutter, top, width - gutter, tall + GAP);
    c.clip();
    c.textAlign = "center";
    let covered = -1; // the last pixel that is filled already
    for (; i <= last; i++) {
      const s = row.spans[i];
      if (s.end_s <= range.from && s.end_s > s.start_s) continue;
      // On a link, a tensor may be sent while the last one still has its latency before it: the later one is on top.
      const next = row.spans[i + 1];
      const x0 = this.xOf(s.start_s),
        x1 = this.xOf(next && row.device === null ? Math.max(s.start_s, Math.min(s.end_s, next.start_s)) : s.end_s);
      if (s.name === chosen) outlined.push([x0, Math.max(this.xOf(s.end_s), x0 + 2)]);
      if (x1 <= covered) continue;
      // Outlines of all nodes of a scope would hide the short ones; instead the other nodes are paler.
      c.globalAlpha = scope !== null && !s.name.startsWith(scope) ? 0.3 : 1;
      // Wide boxes have a gap of one pixel, so that neighbours can be told apart.
      const w = x1 - x0 >= 4 ? x1 - x0 - 1 : Math.max(1, x1 - x0);
      c.fillStyle = fill;
      if (w >= 6) {
        c.beginPath();
        c.roundRect(x0, y, w, tall, 2);
        c.fill();
      } else c.fillRect(x0, y, w, tall);
      covered = Math.max(covered, Math.floor(x0 + w));
      const left = Math.max(x0, gutter),
        room = Math.min(x0 + w, width) - left - 6;
      if (room >= 22) {
        const text = fitName(s.label, room, (t) => c.measureText(t).width);
        if (text) {
          c.fillStyle = colors.onDevice;
          c.fillText(text, left + 3 + room / 2, y + tall / 2 + 0.5);
        }
      }
    }
    c.globalAlpha = 1;
    c.strokeStyle = colors.text;
    c.lineWidth = 2;
    for (const [x0, x1] of outlined) c.strokeRect(x0, y - 1, x1 - x0, tall + 2);
    c.restore();
  }

  // The span below a point. Narrow spans count with two pixels to either side.
  hit(list: Row[], x: number, y: number): Hit | null {
    const { tops } = this;
    const i = list.findIndex((_, k) => y >= tops[k] && y < tops[k + 1]);
    if (i < 0 || x < this.gutter) return null;
    const row = list[i];
    const t = this.timeAt(x),
      slack = this.timeAt(x + 3) - t;
    let best: Span | null = null,
      least = Infinity;
    for (let k = lastStarted(row.spans, t + slack), looked = 0; k >= 0 && looked < 64; k--, looked++) {
      const s = row.spans[k];
      const off = Math.max(0, s.start_s - t, t - s.end_s);
      if (off <= slack && off < least) {
        least = off;
        best = s;
        if (off === 0) break;
      }
    }
    return best && { row, span: best };
  }

  movePlayhead(t: number) {
    const x = this.xOf(t);
    this.head.style.transform = `translateX(${x.toFixed(1)}px)`;
    this.head.hidden = x < this.gutter - 0.5 || x > this.width + 0.5;
  }
}

function fitText(text: string, room: number, measure: (s: string) => number): string {
  if (measure(text) <= room) return text;
  for (let n = text.length - 1; n >= 4; n--) {
    const short = shorten(text, n);
    if (measure(short) <= room) return short;
  }
  return "";
}

// What fits into a box: the whole name, else its last part (the scope is known from the graph), else the beginning of
// that if at least five letters are left.
function fitName(name: string, room: number, measure: (s: string) => number): string {
  if (measure(name) <= room) return name;
  const last = name.slice(name.lastIndexOf("/") + 1);
  if (measure(last) <= room) return last;
  const n = Math.floor((last.length * room) / measure(last)) - 1;
  return n >= 5 ? `${last.slice(0, n)}…` : "";
}

// ---- the window ----

export function setWindow(from: number, to: number) {
  const whole = range.step_s;
  const least = whole / 1e5;
  const wide = Math.min(whole, Math.max(least, to - from));
  const start = Math.max(0, Math.min(whole - wide, from));
  range.from = start;
  range.to = start + wide;
}

export function zoomWindow(factor: number, center: number) {
  setWindow(center - (center - range.from) / factor, center + (range.to - center) / factor);
}

// A new result keeps the piece that is shown, unless all was shown.
export function adoptStep(step_s: number) {
  const all = range.step_s === 0 || range.to - range.from >= range.step_s * 0.999;
  range.step_s = step_s || 1e-9;
  if (all || range.from >= step_s) setWindow(0, range.step_s);
  else setWindow(range.from, range.to);
}
