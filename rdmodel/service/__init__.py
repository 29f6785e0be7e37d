"""Answer queries as newline-delimited JSON, for compilers and tuners in any language (docs/serve.md).

Imports go one way: `protocol`, `line_buffer` and `lru_cache`, then `requests`, `operations`, `scheduler` and `server`.
"""
