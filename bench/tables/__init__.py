"""tables - what is measured: operations and their rows, one file for each domain"""
