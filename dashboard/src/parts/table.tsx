/** A table: sorted by a click, walked by keys, rows that open; only what is in sight is drawn. */
import {
  type ColumnDef,
  getCoreRowModel,
  getSortedRowModel,
  type SortingState,
  useReactTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useKeys } from "./keyboard";

const ROW_PIXELS = 37;

export type Column<Row> = {
  id: string;
  title: ReactNode;
  cell: (row: Row) => ReactNode;
  /** What it is sorted by; without it, it is not. */
  sort?: (row: Row) => string | number;
  /** Of the header and the cells; "hidden sm:table-cell" leaves a column out on a phone. */
  className?: string;
  /** As CSS has it; needed where only a part is drawn, lest columns move while it is scrolled. */
  width?: string;
};

export type TableProps<Row> = {
  label: string;
  /** Undefined stands for a row that has not been read yet. */
  rows: readonly (Row | undefined)[];
  columns: Column<Row>[];
  rowKey: (row: Row) => string;
  empty: ReactNode;
  /** What Enter does; `o` does it too where rows have no detail. */
  onOpen?: (row: Row) => void;
  /** What `o` does where rows unfold into other rows. */
  onUnfold?: (row: Row) => void;
  /** What is shown below a row that has been opened. */
  detail?: (row: Row) => ReactNode;
  /** Which rows are open, where the page keeps that itself. */
  opened?: ReadonlySet<string>;
  onOpened?: (opened: Set<string>) => void;
  /** The row that the address names: it is scrolled to, and the keys begin there. */
  at?: string;
  selected?: ReadonlySet<string>;
  onSelect?: (selected: Set<string>) => void;
  /** Draw only what is in sight, in a box of this height. */
  height?: string;
  /** Told which rows are in sight, so that they can be read. */
  onSight?: (first: number, last: number) => void;
  /** How many rows there are in all, where not all are given. */
  total?: number;
};

export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, height, selected, onSelect, onSight } = props;
  const [sorting, setSorting] = useState<SortingState>([]);
  const [openedHere, setOpenedHere] = useState<ReadonlySet<string>>(new Set());
  const opened = props.opened ?? openedHere;
  const [place, setPlace] = useState<{ index: number; key?: string }>({ index: -1 });
  const box = useRef<HTMLDivElement>(null);

  const definitions = useMemo(() => columns.map(define), [columns]);
  const table = useReactTable<Row | undefined>({
    data: rows as (Row | undefined)[],
    columns: definitions,
    state: { sorting },
    onSortingChange: setSorting,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  // As they come unless they are sorted: to wrap 100,000 rows anew at every news would be felt.
  const order = sorting.length > 0 ? table.getRowModel().rows.map((row) => row.index) : null;
  const rowAt = (index: number) => rows[order?.[index] ?? index];

  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PIXELS,
    overscan: 15,
    enabled: height !== undefined,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items[items.length - 1]?.index ?? 0;
  useEffect(() => {
    if (height !== undefined) onSight?.(first, last);
  }, [height, onSight, first, last]);

  const keyAt = (index: number) => {
    const row = rowAt(index);
    return row === undefined ? undefined : props.rowKey(row);
  };
  // The row that the keys are at goes with what it shows when rows come in above it.
  const keyThere = keyAt(place.index);
  const isMoved = keyThere !== undefined && place.key !== undefined && keyThere !== place.key;
  const current = isMoved ? rows.findIndex((_, index) => keyAt(index) === place.key) : place.index;
  function moveTo(index: number, block: "nearest" | "center") {
    setPlace({ index, key: keyAt(index) });
    if (height !== undefined)
      virtual.scrollToIndex(index, { align: block === "center" ? block : "auto" });
    else document.getElementById(rowId(props.label, index))?.scrollIntoView({ block });
  }
  function move(step: 1 | -1) {
    // Where the row was that is gone: the next one has moved up into its place.
    const gone = step === 1 ? place.index - 1 : place.index;
    const index = (current === -1 ? gone : current) + step;
    moveTo(Math.min(Math.max(index, 0), rows.length - 1), "nearest");
  }
  const isRead =
    props.at !== undefined && rows.some((row) => row && props.rowKey(row) === props.at);
  useEffect(() => {
    const index = rows.findIndex((_, at) => keyAt(at) === props.at);
    // Once, when it has been read: later it is the reader who scrolls.
    if (isRead) moveTo(index, "center");
  }, [isRead, props.at]);
  function toggle(key: string) {
    const after = flipped(opened, key);
    if (props.onOpened === undefined) setOpenedHere(after);
    else props.onOpened(after);
  }
  function open(index: number) {
    const row = rowAt(index);
    if (row === undefined) return;
    if (props.detail !== undefined) toggle(props.rowKey(row));
    else if (props.onUnfold !== undefined) props.onUnfold(row);
    else props.onOpen?.(row);
  }
  function visit(index: number) {
    const row = rowAt(index);
    if (row !== undefined) props.onOpen?.(row);
  }
  function select(key: string) {
    onSelect?.(flipped(selected ?? new Set(), key));
  }
  useKeys(
    {
      j: () => move(1),
      k: () => move(-1),
      Enter: (event) => {
        // What has the focus does what it does.
        if ((event.target as HTMLElement).closest("a, button, summary") !== null) return false;
        if (props.onOpen !== undefined) visit(current);
        else open(current);
        return true;
      },
      o: () => open(current),
      x: () => {
        const key = keyAt(current);
        if (key !== undefined) select(key);
      },
    },
    box,
  );

  if (rows.length === 0) return <>{props.empty}</>;
  const before = height === undefined ? 0 : (items[0]?.start ?? 0);
  const after =
    height === undefined ? 0 : virtual.getTotalSize() - (items[items.length - 1]?.end ?? 0);
  const shown = height === undefined ? rows.map((_, index) => index) : items.map((i) => i.index);
  const width = columns.length + (props.detail ? 1 : 0) + (onSelect ? 1 : 0);
  return (
    <div
      ref={box}
      className="overflow-auto"
      style={height === undefined ? undefined : { maxHeight: height }}
      tabIndex={height === undefined ? undefined : 0}
      role={height === undefined ? undefined : "region"}
      aria-label={height === undefined ? undefined : `${props.label}, scrolled`}
    >
      <table
        aria-label={props.label}
        aria-rowcount={(props.total ?? rows.length) + 1}
        className={`w-full text-left ${height === undefined ? "" : "min-w-[44rem] table-fixed"}`}
      >
        <Head table={table} {...props} />
        {before > 0 && <Gap pixels={before} width={width} />}
        {shown.map((index) => (
          <Line
            key={keyAt(index) ?? `unread ${index}`}
            index={index}
            row={rowAt(index)}
            measure={height === undefined ? undefined : virtual.measureElement}
            isCurrent={index === current}
            isOpened={opened.has(keyAt(index) ?? "")}
            onToggle={toggle}
            onSelectRow={select}
            width={width}
            {...props}
          />
        ))}
        {after > 0 && <Gap pixels={after} width={width} />}
      </table>
    </div>
  );
}

function define<Row>(column: Column<Row>): ColumnDef<Row | undefined> {
  const { id, sort } = column;
  const enableSorting = sort !== undefined;
  return { id, enableSorting, accessorFn: (row) => (row && sort ? sort(row) : "") };
}

function flipped(set: ReadonlySet<string>, key: string): Set<string> {
  const after = new Set(set);
  if (!after.delete(key)) after.add(key);
  return after;
}

function rowId(label: string, index: number): string {
  return `${label.replaceAll(/\W+/g, "-")}-row-${index}`;
}

function Gap({ pixels, width }: { pixels: number; width: number }) {
  return (
    <tbody aria-hidden="true">
      <tr style={{ height: pixels }}>
        <td colSpan={width} />
      </tr>
    </tbody>
  );
}

function Head<Row>({
  table,
  columns,
  detail,
  rows,
  rowKey,
  selected,
  onSelect,
}: TableProps<Row> & { table: ReturnType<typeof useReactTable<Row | undefined>> }) {
  const keys =
    onSelect === undefined ? [] : rows.flatMap((row) => (row === undefined ? [] : [rowKey(row)]));
  const areAll =
    onSelect !== undefined && keys.length > 0 && keys.every((key) => selected?.has(key));
  return (
    <thead className="bg-panel text-dim sticky top-0 z-10 text-xs shadow-[0_1px_0_var(--line)]">
      <tr className="border-line border-b" aria-rowindex={1}>
        {onSelect && (
          <th className="w-9 px-3 py-2">
            <input
              type="checkbox"
              className="block"
              aria-label="Select all"
              checked={areAll}
              onChange={() => onSelect(new Set(areAll ? [] : keys))}
            />
          </th>
        )}
        {detail && (
          <th className="w-8">
            <span className="sr-only">Open</span>
          </th>
        )}
        {columns.map((column) => {
          const sorted = table.getColumn(column.id)?.getIsSorted() ?? false;
          return (
            <th
              key={column.id}
              scope="col"
              style={column.width === undefined ? undefined : { width: column.width }}
              aria-sort={sorted ? (sorted === "asc" ? "ascending" : "descending") : undefined}
              className={`px-3 py-2 font-medium whitespace-nowrap ${column.className ?? ""}`}
            >
              {column.sort ? (
                <button
                  type="button"
                  className="hover:text-ink"
                  onClick={() => table.getColumn(column.id)?.toggleSorting()}
                >
                  {column.title} {sorted === "asc" ? "↑" : sorted === "desc" ? "↓" : ""}
                </button>
              ) : (
                column.title
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

function Line<Row>({
  index,
  row,
  measure,
  label,
  columns,
  rowKey,
  detail,
  selected,
  onSelect,
  onSelectRow,
  onToggle,
  isCurrent,
  isOpened,
  width,
}: TableProps<Row> & {
  index: number;
  row: Row | undefined;
  measure: ((element: HTMLElement | null) => void) | undefined;
  onToggle: (key: string) => void;
  onSelectRow: (key: string) => void;
  isCurrent: boolean;
  isOpened: boolean;
  width: number;
}) {
  const key = row === undefined ? "" : rowKey(row);
  const look = isCurrent ? "bg-accent-soft" : "hover:bg-hover";
  return (
    <tbody ref={measure} data-index={index} className="border-line border-b last:border-b-0">
      <tr
        id={rowId(label, index)}
        aria-rowindex={index + 2}
        aria-current={isCurrent || undefined}
        className={look}
      >
        {onSelect && (
          <td className="px-3 py-2 align-top">
            <input
              type="checkbox"
              className="mt-1 block"
              aria-label={`Select ${key}`}
              disabled={row === undefined}
              checked={selected?.has(key) ?? false}
              onChange={() => onSelectRow(key)}
            />
          </td>
        )}
        {detail && (
          <td className="py-2 pl-3 align-top">
            <button
              type="button"
              aria-label={`${isOpened ? "Close" : "Open"} ${key}`}
              aria-expanded={isOpened}
              disabled={row === undefined}
              onClick={() => onToggle(key)}
              className="text-dim w-4"
            >
              {isOpened ? "▾" : "▸"}
            </button>
          </td>
        )}
        {columns.map((column) => (
          <td key={column.id} className={`px-3 py-2 align-top ${column.className ?? ""}`}>
            {row === undefined ? <span className="text-dim">…</span> : column.cell(row)}
          </td>
        ))}
      </tr>
      {isOpened && row !== undefined && (
        <tr>
          <td colSpan={width} className="bg-page px-4 py-3">
            {/* Of no width of its own: long lines in it do not make the table wider. */}
            <div className="[contain:inline-size]">{detail?.(row)}</div>
          </td>
        </tr>
      )}
    </tbody>
  );
}
