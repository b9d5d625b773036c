"""How figures look: few colours that work on a light and on a dark page, and axes without clutter."""

from matplotlib.axes import Axes

INK = "#24292f"  # text and axes; the report turns it into the page's own text colour
FAINT = "#8c959f"  # grid lines and notes
BLUE, ORANGE = "#2f81c7", "#d9822b"
TINTS = (
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#f0e442",
    "#0072b2",
)  # Okabe and Ito: also for colour-blind readers
HEAT = "inferno"  # a weight from none to the largest
BALANCE = "RdBu"  # red below zero, blue above
TEXT, SMALL = 9.0, 7.5  # points


def chart(axes: Axes, title: str, note: str = "") -> None:
    """A plot with a title at the left, a note under it, and nothing that does not carry data."""
    axes.set_title(title, loc="left", color=INK, fontsize=TEXT, fontweight="bold", pad=18 if note else 6)
    if note:
        axes.text(0, 1.06, note, transform=axes.transAxes, color=FAINT, fontsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=SMALL, length=3)
    axes.grid(color=FAINT, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.patch.set_alpha(0)
