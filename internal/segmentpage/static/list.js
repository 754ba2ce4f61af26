// The list of objects.

// List shows objects {id, name, colour, found} in an element.
export class List {
  does = null; // {pick(id), rename(id, name), remove(id)}, called for what the user does
  #rows = new Map(); // by id
  constructor(element) {
    this.element = element;
  }

  // show makes the list that of objects; the one with the id current is marked.
  show(objects, current, quality) {
    for (const [id, row] of this.#rows) {
      if (objects.some((o) => o.id === id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
    for (const o of objects) {
      const row = this.#rows.get(o.id) ?? this.#add(o.id);
      row.classList.toggle("current", o.id === current);
      row.querySelector(".swatch").style.background = o.colour;
      row.querySelector(".swatch").setAttribute("aria-pressed", String(o.id === current));
      row.querySelector(".swatch").setAttribute("aria-label", `Select ${o.name}`);
      row.querySelector(".remove").setAttribute("aria-label", `Remove ${o.name}`);
      row.querySelector("output").textContent = quality(o);
      const title = row.querySelector(".title");
      if (title !== document.activeElement) title.value = o.name;
    }
    this.#rows.get(current)?.scrollIntoView({ block: "nearest" });
  }

  #add(id) {
    const row = document.createElement("li");
    row.className = "object";
    row.innerHTML = `<button class="swatch"></button><input class="title" maxlength="60" aria-label="Name of the object"><output></output><button class="remove">×</button>`;
    row.querySelector(".swatch").addEventListener("click", () => this.does.pick(id));
    row.querySelector(".remove").addEventListener("click", () => this.does.remove(id));
    const title = row.querySelector(".title");
    title.addEventListener("focus", () => this.does.pick(id));
    title.addEventListener("change", () => this.does.rename(id, title.value.trim()));
    title.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") title.blur();
      event.stopPropagation(); // the letters are no commands
    });
    this.#rows.set(id, row);
    this.element.append(row);
    return row;
  }
}
