// What must hold for a page as it is shown: an array of [check, what is wrong].
(() => {
  const faults = [];
  const fault = (check, text) => faults.push([check, text]);
  const said = (element) => JSON.stringify(element.textContent.trim().slice(0, 60));
  const wide = document.documentElement.clientWidth;

  // The page itself is never scrolled sideways; a table has a frame of its own for that.
  if (document.documentElement.scrollWidth > wide) {
    const outer = [...document.body.querySelectorAll("*")].filter((it) =>
      !it.closest(".table, pre, svg") && it.getBoundingClientRect().right > wide + 0.5);
    const first = outer.length > 0 ? `: ${outer[0].tagName} ${said(outer[0])}` : "";
    fault("overflow", `${document.documentElement.scrollWidth} px of ${wide} px${first}`);
  }

  // Words are whole.
  for (const element of document.querySelectorAll("h1, h2, figcaption, p, .legend li, th, td")) {
    const box = element.getBoundingClientRect();
    const inside = element.closest(".table") || (box.left >= 0 && box.right <= wide + 0.5);
    if (element.scrollWidth > element.clientWidth + 1 || !inside) {
      fault("clipped", `${element.tagName} ${said(element)}`);
    }
  }
  for (const cell of document.querySelectorAll("th, td")) {
    const tall = cell.getBoundingClientRect().height;
    // A letter or two in a line, and line under line, is no column.
    if (cell.textContent.length > 8 && cell.clientWidth < 56 && tall > 100) {
      fault("squeezed", `${cell.tagName} ${said(cell)}`);
    }
  }
  for (const element of document.querySelectorAll("h1, h2, figcaption, th, li, text")) {
    if (element.textContent.includes("…")) fault("cut", `${element.tagName} ${said(element)}`);
  }

  // Labels lie within their picture, and not on one another.
  for (const svg of document.querySelectorAll("figure > svg")) {
    const { width, height } = svg.viewBox.baseVal;
    const labels = [...svg.querySelectorAll("text")].map((it) => [it, it.getBBox()]);
    for (const [label, box] of labels) {
      const inside = box.x >= -0.5 && box.y >= -0.5 &&
        box.x + box.width <= width + 0.5 && box.y + box.height <= height + 0.5;
      if (!inside) fault("outside", `${said(label)} in ${svg.getAttribute("aria-label")}`);
    }
    labels.forEach(([one, a], index) => {
      for (const [other, b] of labels.slice(index + 1)) {
        const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
        const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
        // Lines of text may touch; their letters do not then.
        if (across > 1 && down > 3) {
          fault("overlap", `${said(one)} and ${said(other)} in ${svg.getAttribute("aria-label")}`);
        }
      }
    });
  }

  // A name has one colour in every picture, and no two of one picture share one.
  const colour = (sample) => {
    const style = getComputedStyle(sample);
    return sample.tagName === "rect" ? style.fill : style.stroke + style.strokeDasharray;
  };
  const known = new Map();
  for (const figure of document.querySelectorAll("figure")) {
    const title = figure.querySelector("figcaption").textContent;
    const here = new Map();
    for (const key of figure.querySelectorAll(".legend li")) {
      const sample = key.querySelector("rect, path");
      const [name, shown] = [key.textContent, colour(sample)];
      const place = `${sample.tagName} ${name}`;
      const before = known.get(place) ?? shown;
      if (before !== shown) fault("colour", `${name} is ${shown} in ${title}, elsewhere ${before}`);
      known.set(place, shown);
      const taken = [...here].find(([, other]) => other === shown);
      if (taken) fault("colour", `${name} is like ${taken[0]} in ${title}`);
      here.set(name, shown);
    }
    for (const bar of figure.querySelectorAll(":scope > svg rect")) {
      const hint = bar.querySelector("title").textContent;
      const named = [...here.keys()].filter((name) => hint.includes(`, ${name}: `));
      if (here.size > 0 && !named.some((name) => here.get(name) === colour(bar))) {
        fault("colour", `the bar of ${hint} in ${title} is not like its legend`);
      }
    }
  }
  return faults;
})()
