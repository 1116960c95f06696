"""Pure rules: values and the time go in, values come out; nothing here reads a clock, a disk or a socket."""
