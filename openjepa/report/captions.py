"""The prose of a report: for each figure what it tells first, then how to read it. HTML; values are escaped by `format`."""

from markupsafe import Markup

SCORES = Markup("""The encoder learned only what is above both baselines: raw pixels, and the same encoder with random
weights. A patch dictionary, if it was requested (<code>--baseline patches</code>), is what k-means learns from the same
training images in minutes. Probes read frozen features and never change the encoder. The best of each row is bold. In
[ ] is the 95 % interval over test images (and over seeds, if there are several). The last column is in percentage
points.""")

TRAINING = Markup("""A healthy run keeps most of its first value in <em>directions in use by tokens</em>; its
<em>skill of predictions</em> rises above 0, and its <em>spread of predictions</em> above 0.05. The loss may rise while
the model improves, because the targets change with the model, so look at directions and skill first. Spread, likeness
and directions of whole images may move either way: a component that all images share can grow in a healthy run.""")

VERDICT = Markup("<b>{kind}</b>{since}: {text}.")

MASKS = Markup("""The context encoder sees only the patches in full colour. From these the predictor must predict the
target encoder's output in each tinted block. Faded patches are not used in this draw. Every training step draws new
masks.""")

COVERAGE = Markup("""Over {num_images:,} draws the context holds {context:.0%} of the {grid} patches, and the targets
together cover {target:.0%}. Blocks must fit into the image, so block masks cover the middle more often than the edges.
A chance of 0 anywhere, or a side that differs from the opposite side, would be a bug.""")

ATTENTION = Markup("""This shows which patches a patch attends to. Choose an image and a query patch: each head shows
the patches it reads from, brightest where it reads most. Evenly spread attention looks dark. Healthy heads differ from
each other and change with the query. A head that shows the same few patches for every query uses them to store
information about the whole image.""")

ATTENTION_STILL = Markup("""The last block without a mouse: for each image the patch with the most detail, and the
patch with the least.{heads}""")

PCA = Markup("""Patches of equal colour have similar tokens. The three widest directions of the tokens become red,
green and blue, with one basis for all images of a row. <em>Position removed</em> subtracts the mean token of each
position, so that only the content counts. Healthy: objects stand out from the background in one piece, and similar
objects have similar colours in different images, more than with random weights.""")

SKILL = Markup("""The skill over these images is <b>{skill}</b>: 1 is perfect, 0 knows the position of a patch but not
its content, below 0 is worse than that. Patches were hidden and predicted from the rest, in {num_draws} draws of
masks. Skill compares the error, in the loss of this run, with the error of predicting the mean target of the position.
Healthy: first the background turns blue, then the blue spreads into the objects. Red everywhere means that the
predictor does not use the context.""")

IMAGINED = Markup("""<b>What does the predictor imagine?</b> Each outlined patch was hidden. The third row fills it with
the patch of another image whose target is nearest to the <em>prediction</em>. The last row does the same with the
<em>true</em> target, the best that this method can show. Healthy: first the background continues, then half-hidden
objects are completed.""")

CLOSER = Markup("""What the nearest patches have in common is what the predictor is sure of. For one hidden patch of each
image: the context, the true patch, and the real patches nearest to the prediction, with their surroundings.""")

NEIGHBOURS = Markup("""Neighbours show what the features have in common: look for objects, counts and layouts rather
than for the colour of the background. Each row starts with an image, followed by the nearest of {num_images:,} images
of the {split} split.""")
