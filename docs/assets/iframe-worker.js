// A page that is opened from disk may start no worker. The search runs in one, so there it gets a hidden frame instead,
// which speaks as a worker does.
if (location.protocol === "file:") {
  // By this name the theme's worker knows that it is in a frame, and looks for its parts beside its own script.
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const base = new URL(url, location.href);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      this.waiting = [];
      this.send = data => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => load(next)), Promise.resolve());
      const load = from =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = new URL(from, base);
          script.onload = done;
          script.onerror = failed;
          inside.document.body.append(script);
        });
      load(base).then(() => {
        this.waiting.forEach(this.send);
        this.waiting = null;
      });
    }

    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.send(data);
    }

    terminate() {}
  };
}
