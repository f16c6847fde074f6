"""What kubectl needs: tables, discovery, OpenAPI documents and protobuf."""

__all__: list[str] = []
