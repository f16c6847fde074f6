"""What kubectl needs: tables, discovery, OpenAPI documents and protobuf."""
