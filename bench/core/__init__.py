"""core - what every comparison shares: problems, timing, the report, the machine"""
