"""peers - how other packages do the same work, one file for each package

A file imports its package at its head.  PACKAGES are the distributions whose versions a report
names, DEVICES where it computes, and CALLS maps the names of operations to functions of a problem,
which return a call, several as {what distinguishes them: call}, or None where the package does not
offer what the problem asks for.
"""
