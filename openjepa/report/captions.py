"""What a report says about its figures: how to read them, and what healthy looks like. Plain words; HTML."""

SCORES = """Frozen features, judged by probes that never change the encoder. Raw pixels and the same encoder with
random weights are the floors: only what lies above both was learned. The best of each row is bold; small
numbers are 95 % intervals over test pictures (and seeds, where there are several); the last column is in percentage
points."""

TRAINING = """The loss may rise while the model improves, because its targets move with it; so look at directions and
skill first. Healthy: <em>directions in use by tokens</em> keeps most of its first value, <em>skill</em> rises above 0,
<em>spread of predictions</em> above 0.05. Spread, likeness and directions of whole images may move either way: a part
that all images share can grow in a healthy run."""

MASKS = """The context encoder sees only the patches in full colour. From them the predictor must say what the
target encoder finds in each tinted block; faded patches play no part in this draw. Every training step draws new
masks."""

COVERAGE = """Blocks must fit into the picture, so block masks ask for the middle more often than for the edges. A
chance of 0 anywhere, or a side that differs from its opposite, would be a fault."""

ATTENTION = """Where a patch looks while its token is computed. Pick a picture and a patch: every head shows the
patches it reads from, brightest where it reads most; attention spread evenly stays dark. Healthy heads differ from
each other and change with the query. A head that shows the same few patches whoever asks has turned them into a
store for the whole picture."""

ATTENTION_STILL = """The last block without a mouse: of each picture the patch with the most detail, and that with
the least."""

PCA = """Patch tokens as colours: their three widest directions become red, green and blue, with one basis for all
pictures of a row. Equal colours mean that the encoder finds the patches alike. <em>Place removed</em> takes away
the mean token of each place, so that only what is shown counts. Healthy: things stand out from the ground in one
piece, and like things have like colours in different pictures, more so than with random weights."""

SKILL = """Skill compares the error, in the loss of this run, with that of answering the mean target of the place: 1
is perfect, 0 knows where but not what, below 0 is worse than that. Healthy: first the ground turns blue, then the
blue grows into the things. Red everywhere means that the predictor makes no use of the context."""

IMAGINED = """<b>What does the predictor imagine?</b> In each outlined place stands the patch of another picture
whose target comes nearest to the <em>prediction</em>. The last row does the same with the <em>true</em> target: the
best that this way of looking can show. Healthy: the ground goes on, then things that are half seen are completed."""

CLOSER = """One hidden patch of each picture, next to what is seen: the truth, and the real patches nearest to the
prediction with their surroundings. What they have in common is what the predictor is sure of."""

NEIGHBOURS = """The features say what two pictures have in common: look for things, numbers and arrangements rather
than for the colour of the ground."""
