"""Redis's serialised form of a value, for DUMP, RESTORE and FUNCTION DUMP. Bytes in, values out."""
