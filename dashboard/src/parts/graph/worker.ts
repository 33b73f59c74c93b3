/** Lays out beside the page, which goes on meanwhile: a large graph takes seconds. */
import { place } from "./layout";
import type { Shape } from "./shape";

self.onmessage = (message: MessageEvent<Shape>) => self.postMessage(place(message.data));
