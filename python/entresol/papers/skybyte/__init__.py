"""SkyByte: Architecting an Efficient Memory-Semantic CXL-based SSD with OS and Hardware Co-design
(HPCA 2025), and its artifact."""
