// `performance.now()`: milliseconds since this instance took up the run, by the run's own clock.

import { now } from "../clock.js";

let origin = 0;

export function startPerformance() {
  origin = now();
}

export const performance = {
  now: () => now() - origin,
  get timeOrigin() {
    return origin;
  },
  mark() {},
  measure() {},
  toJSON: () => ({ timeOrigin: origin }),
};
