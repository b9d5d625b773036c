"""RUN/report.html: what a run did and learned, on one page."""
