"""Queries as newline-delimited JSON, for compilers and tuners in any language (docs/serve.md).

Floors within: `protocol`, `lines`, `recent` - `requests` - `questions` - `desk` - `server`.
"""
