// The attention widget: choose a query patch in the image on the left; each head on the right shows where it looks.
(function () {
  "use strict";
  var holder = document.getElementById("attention-widget"), source = document.getElementById("attention-data");
  if (!holder || !source) return;
  var data = JSON.parse(source.textContent);
  var rows = data.grid[0], columns = data.grid[1], patches = rows * columns, heads = data.heads;
  var weights = bytes(data.weights), peaks = new Float32Array(bytes(data.peaks).buffer);
  var EVEN = 4;  // as in report/figures/attention.py: evenly spread attention stays dark
  var SIDE = 300;  // pixels of a canvas across
  var width = SIDE, height = Math.round(SIDE * data.size[0] / data.size[1]);
  var HEAT = [[0, 0, 4], [40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39], [252, 255, 164]];
  var state = { image: 0, block: data.blocks.length - 1, query: Math.floor(rows / 2) * columns + Math.floor(columns / 2), pinned: false };
  var images = [], thumbs = [], blocks = [], panels = [], query, label;

  function bytes(text) {
    var raw = atob(text), out = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }
  function add(parent, tag, name, text) {
    var element = document.createElement(tag);
    if (name) element.className = name;
    if (text) element.textContent = text;
    parent.appendChild(element);
    return element;
  }
  function canvas(parent) {
    var element = add(parent, "canvas");
    element.width = width; element.height = height;
    return element;
  }

  function build() {
    var bar = add(holder, "div", "bar");
    add(bar, "span", "", "image");
    data.images.forEach(function (address, index) {
      var button = add(bar, "button", "thumb"), image = add(button, "img");
      button.type = "button";
      image.alt = "image " + (index + 1);
      button.addEventListener("click", function () { state.image = index; draw(); });
      image.addEventListener("load", draw);
      image.src = address;
      images.push(image); thumbs.push(button);
    });
    if (data.blocks.length > 1) {
      bar = add(holder, "div", "bar");
      add(bar, "span", "", "block");
      data.blocks.forEach(function (number, index) {
        var button = add(bar, "button", "", String(number));
        button.type = "button";
        button.addEventListener("click", function () { state.block = index; draw(); });
        blocks.push(button);
      });
    }
    var stage = add(holder, "div", "stage"), left = add(stage, "div");
    query = canvas(left);
    query.className = "query"; query.tabIndex = 0;
    query.setAttribute("role", "application");
    query.setAttribute("aria-label", "image; arrow keys move the query patch");
    label = add(left, "p", "label");
    add(left, "p", "label", "Move over the image to change the query patch; click to hold it. Arrow keys work too.");
    var grid = add(stage, "div", "heads");
    grid.style.setProperty("--columns", heads < 6 ? 3 : heads < 12 ? 4 : 5);
    for (var head = -1; head < heads; head++) {
      var box = add(grid, "div");
      panels.push({ canvas: canvas(box), label: add(box, "p", "label"), head: head });
    }
    query.addEventListener("pointermove", function (event) { if (!state.pinned) choose(patchAt(event)); });
    query.addEventListener("pointerdown", function (event) {
      var patch = patchAt(event);
      state.pinned = !(state.pinned && patch === state.query);
      choose(patch);
    });
    query.addEventListener("keydown", move);
  }
  function patchAt(event) {
    var box = query.getBoundingClientRect();
    var column = Math.floor((event.clientX - box.left) / box.width * columns);
    var row = Math.floor((event.clientY - box.top) / box.height * rows);
    return Math.min(Math.max(row, 0), rows - 1) * columns + Math.min(Math.max(column, 0), columns - 1);
  }
  function move(event) {
    var steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!steps) return;
    event.preventDefault();
    var row = Math.floor(state.query / columns) + steps[0], column = state.query % columns + steps[1];
    state.pinned = true;
    if (row >= 0 && row < rows && column >= 0 && column < columns) choose(row * columns + column);
  }
  function choose(patch) {
    state.query = patch;
    draw();
  }

  // The attention of the query in one head; head -1 is the mean of all heads.
  function attentionOf(head) {
    var values = new Float32Array(patches), peak = 0, first = head < 0 ? 0 : head, last = head < 0 ? heads - 1 : head;
    for (var h = first; h <= last; h++) {
      var row = ((state.image * data.blocks.length + state.block) * heads + h) * patches + state.query;
      for (var key = 0; key < patches; key++) values[key] += weights[row * patches + key] / 255 * peaks[row] / (last - first + 1);
    }
    for (var k = 0; k < patches; k++) peak = Math.max(peak, values[k]);
    return { values: values, peak: peak };
  }
  function colour(value) {
    var level = value * (HEAT.length - 1), low = Math.min(Math.floor(level), HEAT.length - 2), share = level - low;
    var mixed = HEAT[low].map(function (start, channel) { return Math.round(start + (HEAT[low + 1][channel] - start) * share); });
    return "rgba(" + mixed.join(",") + "," + 0.9 * value + ")";
  }
  function frame(context, patch) {
    var w = width / columns, h = height / rows, x = patch % columns * w, y = Math.floor(patch / columns) * h;
    context.lineWidth = 7; context.strokeStyle = "#000"; context.strokeRect(x, y, w, h);
    context.lineWidth = 3; context.strokeStyle = "#fff"; context.strokeRect(x, y, w, h);
  }
  function grey(image) {
    var sheet = document.createElement("canvas"), context = sheet.getContext("2d");
    sheet.width = width; sheet.height = height;
    context.drawImage(image, 0, 0, width, height);
    var pixels = context.getImageData(0, 0, width, height), values = pixels.data;
    for (var i = 0; i < values.length; i += 4) values[i] = values[i + 1] = values[i + 2] = 0.7 / 3 * (values[i] + values[i + 1] + values[i + 2]);
    context.putImageData(pixels, 0, 0);
    return sheet;
  }
  function draw() {
    var image = images[state.image];
    if (!label || !image.complete || !image.naturalWidth) return;
    thumbs.forEach(function (button, index) { button.setAttribute("aria-pressed", index === state.image); });
    blocks.forEach(function (button, index) { button.setAttribute("aria-pressed", index === state.block); });
    var context = query.getContext("2d");
    context.drawImage(image, 0, 0, width, height);
    frame(context, state.query);
    label.textContent = "query: row " + (Math.floor(state.query / columns) + 1) + ", column " + (state.query % columns + 1) + (state.pinned ? " (held)" : "");
    image.grey = image.grey || grey(image);
    panels.forEach(function (panel) { drawHead(panel, image.grey); });
  }
  function drawHead(panel, background) {
    var context = panel.canvas.getContext("2d"), attention = attentionOf(panel.head);
    var brightest = Math.max(attention.peak, EVEN / patches);
    context.drawImage(background, 0, 0);
    for (var key = 0; key < patches; key++) {
      var x = key % columns, y = Math.floor(key / columns);
      var left = Math.round(x * width / columns), top = Math.round(y * height / rows);
      context.fillStyle = colour(attention.values[key] / brightest);
      context.fillRect(left, top, Math.round((x + 1) * width / columns) - left, Math.round((y + 1) * height / rows) - top);
    }
    frame(context, state.query);
    panel.label.textContent = "";
    add(panel.label, "span", "", panel.head < 0 ? "mean" : "head " + (panel.head + 1));
    add(panel.label, "span", "", "peak " + (100 * attention.peak).toFixed(attention.peak < 0.1 ? 1 : 0) + "%");
  }

  build();
  draw();
})();
