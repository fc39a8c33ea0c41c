// Charts of a table's columns. The table has the same numbers, for readers without this script.
"use strict";

const HALF_A_DAY = 43200;
const days = document.getElementById("days");
const plotOf = (figure) => figure.querySelector(".plot"); // has its size before it is drawn: nothing jumps
const cells = (column) => [...days.tBodies[0].rows].reverse().map((row) => row.cells[column].dataset.value);
const moments = cells(0).map((day) => Date.parse(`${day}T00:00:00Z`) / 1000);
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const dayAndMonth = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });
const inUtc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC");

const colourOf = (name) => {
  const probe = document.createElement("span");
  probe.className = `colour-${name}`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
};

const axis = (more) => ({ stroke: colourOf("quiet"), grid: { stroke: colourOf("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", ...more });

const bars = () => ({ fill: colourOf("accent"), width: 0, paths: uPlot.paths.bars({ size: [0.7, 24] }), points: { show: false } });

const level = (values) => ({ stroke: colourOf("accent"), fill: colourOf("accent-sunk"), width: 1.5, spanGaps: true, points: { show: values.filter((value) => value !== null).length < 2 } });

const options = (figure, values, line) => ({
  width: plotOf(figure).clientWidth,
  height: plotOf(figure).clientHeight,
  legend: { show: false },
  cursor: { show: false },
  tzDate: inUtc,
  scales: { x: { time: true, range: (_, first, last) => [first - HALF_A_DAY, last + HALF_A_DAY] }, y: { range: (_, low, high) => [0, Math.max(1, high ?? 1, line) * 1.1] } },
  axes: [
    axis({ size: 28, space: 60, values: (_, ticks) => ticks.map((tick) => dayAndMonth.format(tick * 1000)) }),
    axis({ size: 46, space: 36, values: (_, ticks) => ticks.map((tick) => short.format(tick)) }),
  ],
  series: [
    {},
    figure.dataset.unit === undefined ? bars() : level(values),
    ...(line ? [{ stroke: colourOf("bad"), width: 1, dash: [4, 4], points: { show: false } }] : []),
  ],
});

for (const figure of document.querySelectorAll("[data-chart]")) {
  const values = cells(Number(figure.dataset.chart)).map((value) => (value === "" ? null : Number(value)));
  const line = Number(figure.dataset.line ?? 0);
  const data = [moments, values, ...(line ? [moments.map(() => line)] : [])];
  const plot = plotOf(figure);
  const chart = new uPlot(options(figure, values, line), data, plot);
  // The table says the same, and a canvas cannot be read.
  chart.root.setAttribute("aria-hidden", "true");
  new ResizeObserver(() => chart.setSize({ width: plot.clientWidth, height: plot.clientHeight })).observe(plot);
}
