"""How long a step takes on machines that are not at hand: `python -m distarray model`.

- `machine`  what is known of a machine: memory, links, nodes; two with names (pure)
- `traffic`  what one rank computes and sends in a step, from the plans of the library (pure)
- `step`     the time of a step, from these two (pure)
- `scaling`  tables over the number of ranks, weak and strong (pure)
- `measure`  the inputs measured on this machine, and steps measured beside their predictions
- `command`  the command line

The model is a sum of costs in the manner of LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995,
"LogGP: incorporating long messages into the LogP model"): a latency for each exchange, an overhead
for each message, a time for each byte. It knows no contention: networks whose bandwidth is tapered,
or shared with other jobs, are slower. Tiles of several steps are not modelled.
"""
