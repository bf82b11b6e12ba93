"""Halo exchange: `plan` says who sends what to whom, `buffers` hold it, `exchange` does it,
`shared` carries what stays on a node.
"""
