// The views and their addresses: all in the fragment, which no server sees.

const VIEWS = ["controllers", "objects", "object", "clusters"];
const FILTERS = ["q", "health", "state", "condition", "controller", "sort"];

/** The view that a fragment names, such as `#/objects?health=failing`. */
export function routeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
  const values = Object.fromEntries(new URLSearchParams(query ?? ""));
  const view = VIEWS.includes(path) ? path : "controllers";
  return { view, values };
}

export function objectsAddress(filter) {
  const values = FILTERS.filter((name) => filter[name]).map((name) => [name, filter[name]]);
  const query = new URLSearchParams(values).toString();
  return query ? `#/objects?${query}` : "#/objects";
}

export function objectAddress(controller, key) {
  return `#/object?${new URLSearchParams({ controller, key })}`;
}
