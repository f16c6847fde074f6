// Times are in UTC, so that two people talk of the same one; pointing at a time shows it in one's own zone.
for (const time of document.querySelectorAll("time")) {
  const moment = new Date(time.dateTime);
  if (!Number.isNaN(moment.valueOf())) time.title = moment.toLocaleString();
}
// Paper cannot be unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
