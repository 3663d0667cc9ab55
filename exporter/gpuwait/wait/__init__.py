"""The wait ledger: observation, verdict, seconds."""
