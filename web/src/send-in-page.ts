// In the page that is one file: requests go to the simulator in the page, which runs in workers (web/wasm/worker.js).
//
// A worker answers one request after the other. There are two: sweeps take long and have one of their own, so that a
// slider does not wait for them. A worker that computes what nobody waits for any more is replaced by a new one.
//
// Files that were opened are kept here in their order. Each worker gets those that it does not have before its next
// request, and as ids are given in order, a file has the same id in all workers.
import type { Answer } from "./send";

interface Question {
  target: string;
  body?: string | Blob;
  resolve: (a: Answer) => void;
  reject: (e: Error) => void;
  gone: boolean; // nobody waits for the answer
}

interface Reply {
  status: number; // 0: the simulator has failed, and `text` says how
  text: string;
}

const GIVEN_UP_MS = 300; // how long a worker may go on with what nobody waits for; starting another takes less

const contentOf = (id: string) => document.getElementById(id)!.textContent!;

async function compile(): Promise<WebAssembly.Module> {
  const packed = Uint8Array.from(atob(contentOf("simulator-wasm").trim()), (c) => c.charCodeAt(0));
  const bytes = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(bytes).arrayBuffer());
}

let compiled: Promise<WebAssembly.Module> | undefined;
const files: { target: string; body: Blob }[] = [];

class Lane {
  private worker: Worker | null = null;
  private had = 0; // number of files that the worker has
  private queue: Question[] = [];
  private asked: Question | null = null;
  private answered: (r: Reply) => void = () => {};

  add(q: Question): void {
    this.queue.push(q);
    if (!this.asked) void this.work();
  }

  // The caller has told the one who asked. A question that waits is dropped; the running one has a little time to end.
  giveUp(q: Question): void {
    q.gone = true;
    this.queue = this.queue.filter((x) => x !== q);
    if (this.asked === q)
      setTimeout(() => this.asked === q && this.answered({ status: 0, text: "given up" }), GIVEN_UP_MS);
  }

  private async work(): Promise<void> {
    for (let q = this.queue.shift(); q; q = this.queue.shift()) {
      this.asked = q;
      try {
        const r = await this.answer(q);
        if (!r.status) throw new Error(`The simulator in this page has failed: ${r.text}`);
        q.resolve({ ok: r.status < 300, status: r.status, text: r.text });
      } catch (e) {
        this.stop();
        q.reject(e as Error);
      }
    }
    this.asked = null;
  }

  private async answer(q: Question): Promise<Reply> {
    await this.start();
    if (q.body instanceof Blob) files.push({ target: q.target, body: q.body });
    let r: Reply = { status: 0, text: "" };
    while (this.had < files.length && !q.gone) {
      const f = files[this.had++];
      r = await this.ask(f.target, new Uint8Array(await f.body.arrayBuffer()));
      if (!r.status) return r;
    }
    return q.body instanceof Blob ? r : this.ask(q.target, q.body);
  }

  private ask(target: string, body?: string | Uint8Array): Promise<Reply> {
    return new Promise((resolve) => {
      this.answered = resolve;
      this.worker!.postMessage({ target, body });
    });
  }

  private async start(): Promise<void> {
    if (this.worker) return;
    const module = await (compiled ??= compile());
    const url = URL.createObjectURL(new Blob([contentOf("simulator-worker")], { type: "text/javascript" }));
    const w = (this.worker = new Worker(url));
    URL.revokeObjectURL(url);
    this.had = 0;
    w.onmessage = (e: MessageEvent<Reply>) => this.answered(e.data);
    w.onerror = (e) => {
      e.preventDefault();
      this.answered({ status: 0, text: e.message });
    };
    w.postMessage({ module });
  }

  private stop(): void {
    if (this.worker) {
      this.worker.onmessage = this.worker.onerror = null;
      this.worker.terminate();
    }
    this.worker = null;
  }
}

const lane = new Lane();
const sweeps = new Lane();

export function send(path: string, body?: string | Blob, signal?: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const q: Question = { target: `/${path}`, body, resolve, reject, gone: false };
    const where = path.startsWith("api/sweep") ? sweeps : lane;
    signal?.addEventListener("abort", () => {
      reject(signal.reason);
      where.giveUp(q);
    }, { once: true });
    where.add(q);
  });
}
