"""Table for a terminal of any width: columns that do not fit stand in further tables below, with the names again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_GAP = 2  # blanks between two columns
_NAME = 12, 40  # the fewest and most columns of the terminal for names, where not all fits; names are never cut


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """Title, with line breaks, and a cell for each row, both of markup."""

    title: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """The width in columns of the terminal."""
        return max(Text.from_markup(line).cell_len for line in [*self.title.split("\n"), *self.cells])


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Table with a name for each row, as markup, and groups of columns.

    Groups that do not fit give way, the last one first: they stand in further tables below. A group is divided only if
    it is wider than the terminal by itself. Where not everything fits, names of more than 40 characters, or half of the
    width, are wrapped.
    """

    head: str
    names: tuple[str, ...]
    groups: tuple[tuple[FittedColumn, ...], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables, with a blank line between two."""
        width, name = options.max_width, FittedColumn(self.head, self.names).width
        if name + sum(_GAP + column.width for group in self.groups for column in group) > width:
            name = min(name, max(_NAME[0], min(_NAME[1], width // 2)))
        for number, columns in enumerate(_divide(self.groups, width - name)):
            if number:
                yield ""
            yield self._make_table(columns, name)

    def _make_table(self, columns: Sequence[FittedColumn], name: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(self.head, overflow="fold", width=name)
        for column in columns:
            table.add_column(column.title, justify="right", no_wrap=True)
        for number, row in enumerate(self.names):
            table.add_row(row, *(column.cells[number] for column in columns))
        return table


def _divide(groups: Sequence[Sequence[FittedColumn]], room: int) -> Iterator[list[FittedColumn]]:
    """Yield the columns of each table: as many whole groups as fit into `room`, which is without the names."""
    columns, used = list[FittedColumn](), 0
    for group in groups:
        fits = used + sum(_GAP + column.width for column in group) <= room
        for number, column in enumerate(group):
            if columns and (used + _GAP + column.width > room or (number == 0 and not fits)):
                yield columns
                columns, used = [], 0
            columns.append(column)
            used += _GAP + column.width
    yield columns
