/** Lays out beside the page, which goes on meanwhile: a large graph takes seconds. */
import { place } from "./graph_layout";
import type { Shape } from "./graph_shape";

self.onmessage = (message: MessageEvent<Shape>) => self.postMessage(place(message.data));
